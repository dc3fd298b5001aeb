"""Parses generated tokens into a message."""

from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from contract.messages import Message, ToolSchema
from trainer.rendering.chat import end_of_turn


class Parsed(NamedTuple):
    """A message, and the problem with its tool calls if they can't be parsed."""

    message: Message
    error: str | None = None


def parse_turn(
    tokenizer: PreTrainedTokenizerBase,
    ids: list[int],
    *,
    prompt_ids: list[int],
    tools: list[ToolSchema],
    ends: frozenset[int],
    call_ids: str = "call",
) -> Parsed:
    """Parse the assistant message in `ids` after `prompt_ids`, without its final token from `ends`.

    Calls get the ids `<call_ids>_1`, `<call_ids>_2`, …

    Unparsable calls stay in the content unchanged, so that nothing is lost.
    """
    ended = bool(ids) and ids[-1] in ends
    text = str(tokenizer.decode(ids[:-1] if ended else ids))
    if getattr(tokenizer, "response_template", None) is None:
        return Parsed({"role": "assistant", "content": text})

    def read(written: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        parsed: Any = tokenizer.parse_response(written, prefix=str(tokenizer.decode(prompt_ids)), tools=[*tools])
        return parsed, [checked_call(call) for call in parsed.get("tool_calls") or []]

    try:
        parsed, calls = read(text)
    except (ValueError, TypeError) as error:
        end = end_of_turn(tokenizer) if ended else None
        try:  # Llama's calls are over only with the token that ends their turn, whichever of its two that was
            parsed, calls = read(text + ("" if end is None else str(tokenizer.decode([end]))))
        except (ValueError, TypeError):
            return Parsed({"role": "assistant", "content": text}, error=f"{error}"[:200])
    message: Message = {"role": "assistant", "content": parsed.get("content") or ""}
    if reasoning := parsed.get("reasoning_content") or parsed.get("thinking"):  # gpt-oss's name
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"id": f"{call_ids}_{number}", "type": "function", "function": call}
            for number, call in enumerate(calls, start=1)
        ]
    return Parsed(message)


def checked_call(call: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError if the name isn't text."""
    function = call.get("function", call)
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError("a tool call needs a name")
    arguments = function.get("arguments")
    return {"name": function["name"], "arguments": {} if arguments is None else arguments}
