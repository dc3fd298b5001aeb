"""Prepares a model's chat template for training: it must mark assistant tokens, and its calls should be parsable."""

from contextlib import suppress

from transformers import PreTrainedTokenizerBase
from trl import chat_template_utils
from trl.chat_template_utils import add_response_schema, get_training_chat_template, has_generation_markers

from contract.messages import Message, ToolSchema
from trainer.failures import ConfigFailure
from trainer.rendering.chat import PROBE, end_of_turn, render_by_prefixes, written
from trainer.rendering.message_form import ANSWER, QUESTION
from trainer.rendering.time_limit import TookTooLong, time_limit

TOOL: ToolSchema = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
    },
}
CALL: Message = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "call00001", "type": "function", "function": {"name": "look", "arguments": {"at": "it"}}}],
}
RESULT: Message = {"role": "tool", "tool_call_id": "call00001", "name": "look", "content": ANSWER}
THOUGHT: Message = {"role": "assistant", "reasoning_content": QUESTION, "content": ANSWER}
TRAINING = "_training_chat_template"
"""Suffix of TRL's training templates."""
PROBING_SECONDS = 60.0
"""Time limit of all checks of a template, which take about a second."""
PROBES: list[tuple[list[Message], list[ToolSchema]]] = [
    (PROBE * 2, []),
    ([{"role": "system", "content": ANSWER}, *PROBE], []),
    ([PROBE[0], THOUGHT], []),
    ([{"role": "system", "content": ANSWER}, PROBE[0], CALL, RESULT, PROBE[1], *PROBE], [TOOL]),
]
"""Probe chats that distinguish formats."""


def prepare_template(tokenizer: PreTrainedTokenizerBase) -> None:
    """Give the tokenizer a chat template that distinguishes generated tokens, and the parser of its calls.

    Known formats (Qwen, Gemma, GLM, …) are replaced by TRL's training variant, which never rewrites earlier turns. Others are kept
    if they're prefix-preserving (Llama 3.1, Mistral, …). Raises ConfigFailure for any other template, and for one that never finishes.
    """
    if not tokenizer.chat_template:
        raise ConfigFailure(
            "model: its tokenizer has no chat template.",
            advice="Use an instruction-tuned model, or add a chat_template to its tokenizer.",
        )
    try:
        with time_limit(PROBING_SECONDS):
            _prepare(tokenizer)
    except TookTooLong:
        raise ConfigFailure(
            f"model: its chat template was still writing a short chat after {PROBING_SECONDS:g} s.",
            advice="Use another model, or repair the chat_template of its tokenizer.",
        ) from None


def _prepare(tokenizer: PreTrainedTokenizerBase) -> None:
    original = tokenizer.chat_template
    tokenizer.chat_template = same_format(tokenizer) or original
    if getattr(tokenizer, "response_template", None) is None:
        try:
            add_response_schema(tokenizer)
        except ValueError:
            tokenizer.response_template = None  # calls can't be parsed: training works, but tools in rollouts don't
    with suppress(ValueError):
        tokenizer.chat_template = get_training_chat_template(tokenizer) or tokenizer.chat_template
    if not has_generation_markers(tokenizer.chat_template):
        check_prefixes(tokenizer)


def same_format(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """The template with a TRL training variant that renders chats exactly like the tokenizer's own.

    TRL identifies templates by their text, but many copies of models (such as Unsloth's) have equivalent templates with other text.
    """
    own_template = tokenizer.chat_template
    if has_generation_markers(own_template):
        return None
    templates: dict[str, str] = vars(chat_template_utils)
    names = [
        name.removesuffix(TRAINING) for name in templates if name.endswith(TRAINING) and not name.startswith("get_")
    ]
    originals = [templates[f"{name}_chat_template"] for name in names]
    if own_template in originals:
        return None
    spellings = renderings(tokenizer, own_template)
    return next((original for original in originals if renderings(tokenizer, original) == spellings), None)


def renderings(tokenizer: PreTrainedTokenizerBase, template: str) -> list[str]:
    """The rendered probes; "" for one that it refuses."""
    original, spellings = tokenizer.chat_template, []
    tokenizer.chat_template = template
    for chat, tools in PROBES:
        for more in ({}, {"add_generation_prompt": True}):
            try:
                spellings.append(written(tokenizer, chat, tools, **more))
            except Exception:  # a template may raise anything: TemplateError, TypeError, …
                spellings.append("")
    tokenizer.chat_template = original
    return spellings


def check_prefixes(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raises ConfigFailure if the turns of a chat can't be distinguished from the rest."""
    try:
        written_tokens = sum(render_by_prefixes(tokenizer, PROBE * 2, []).mask)
        problem = (
            "" if written_tokens and end_of_turn(tokenizer) is not None else "it writes nothing at the end of a turn"
        )
    except Exception as error:
        problem = str(error)
    if problem:
        raise ConfigFailure(
            f"model: its chat template does not mark what the assistant generates, and its format is unknown: {problem}.",
            advice="Put {% generation %} and {% endgeneration %} around the assistant's text in the chat template.",
        )
