"""Whether a template has written a chat so that a policy can learn from it. Each check raises ValueError with the reason."""

from collections.abc import Sequence

from contract.messages import Message
from trainer.rendering.message_form import THINK, THOUGHT


def check_turns(texts: Sequence[str], said: Sequence[Message]) -> None:
    """texts: what the template wrote for each of the turns, `said`, that a policy is to learn."""
    for text, message in zip(texts, said, strict=True):
        check_calls(text, message)
    thoughts = [reasoning_of(message) for message in said]
    kept = [thought in text for text, thought in zip(texts, thoughts, strict=True) if thought]
    if any(kept) and not all(kept):
        raise ValueError(
            "it leaves out the reasoning of earlier turns, so a policy would learn to go without; choose a model whose template keeps "
            "it, or learn from single turns"
        )


def check_calls(text: str, message: Message) -> None:
    """Where a call is left out: of what remains a policy would learn to say nothing instead."""
    for call in message.get("tool_calls") or []:
        name = call["function"]["name"]
        if name not in text:
            raise ValueError(f"it leaves out the call of {name!r}; choose a model whose template writes every call")


def check_prompt(chat: str, prompt: str) -> None:
    """Where the chat before a turn is not what a policy is prompted with there, line breaks at its end aside.

    Some templates prompt with <think> and do not write that before what was said, or write an earlier turn otherwise once another follows.
    """
    wanted = prompt.rstrip()
    if not chat.startswith(wanted):
        end = wanted.rpartition("\n")[2][-40:]
        raise ValueError(
            f"what it writes before a turn is not what it prompts that turn with, which ends in {end!r}; choose a model whose "
            "template only ever adds to the end of a chat"
        )


def thinks(message: Message) -> bool:
    return bool(reasoning_of(message))


def reasoning_of(message: Message) -> str:
    """As it was given apart from the content, or within; "" where there is none."""
    content = message.get("content")
    inside = content.partition(THOUGHT)[0] if isinstance(content, str) and THOUGHT in content else ""
    thought = message.get("reasoning_content") or inside.rpartition(THINK)[2]
    return thought.strip() if isinstance(thought, str) else ""
