"""Redacts calls before they are stored: text that matches the workspace's rules, and token ids that would reveal it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from apps.gateway.models import Call, Join
from apps.redaction.redaction import Redaction, Rule, is_file, is_word_of_protocol, marker
from contract.values import Json

REDACTED = "Text of its chat was redacted, and its token ids would reveal it."
OF_TOKENS = ("token_ids", "prompt_token_ids", "logprobs", "prompt_logprobs")
"""Token-level fields of a reply or a choice."""
WITHHELD = marker("the rules failed")
logger = logging.getLogger(__name__)


def redact(
    call: Call,
    rules: Sequence[Rule],
    *,
    parent_is_redacted: bool,
    messages: Sequence[Json],
    tools: Json,
    withheld: Callable[[str], Json],
) -> None:
    """Replace in a call what rules match. messages, tools: the complete prompt, of which the call itself holds only the new part.
    withheld: builds a reply in the call's protocol with only the given text.

    If anything in the prompt or the reply was replaced, here or in an earlier call, token ids are removed, too: they encode the text.
    """
    try:
        is_redacted = _replace(call, rules) or parent_is_redacted
        if (
            not is_redacted
            and call.join != Join.TOKENS
            and (call.prompt_ids is not None or _contains_tokens(call.reply))
        ):
            is_redacted = _finds(rules, [list(messages), tools])  # the ids cover the whole prompt
    except Exception:  # fail closed: nothing unchecked is stored
        logger.exception("the rules of workspace %s failed", call.session.workspace_id)
        _withhold(call, withheld(WITHHELD))
        is_redacted = True
    if is_redacted:
        _remove_tokens(call)


def _replace(call: Call, rules: Sequence[Rule]) -> bool:
    run = Redaction(rules)
    call.request = run.value(call.request)
    call.messages = run.value(call.messages, is_kept=_is_kept)
    call.tools = run.value(call.tools, is_kept=_is_kept)
    call.reply = run.value(call.reply, is_kept=_is_kept)
    call.error = run.text(call.error)
    return bool(run.found)


def _is_kept(name: str, value: Any) -> bool:
    if name == "logprob" and isinstance(value, float):  # of many, the digits of some look like those of a payment card
        return True
    return is_word_of_protocol(name, value) or (name == "data" and isinstance(value, str) and is_file(value))


def _finds(rules: Sequence[Rule], value: Any) -> bool:
    run = Redaction(rules)
    run.value(value, is_kept=_is_kept)
    return bool(run.found)


def _withhold(call: Call, reply: Json) -> None:
    call.request, call.tools, call.error = {}, None, WITHHELD if call.error else ""
    call.messages = [{"role": "user", "content": WITHHELD}] if call.messages else []
    if call.reply is not None:
        call.reply = reply


def _remove_tokens(call: Call) -> None:
    call.is_redacted = True
    call.prompt_ids = call.sampled_ids = call.logprobs = None
    if call.reply is not None:
        call.untrainable = REDACTED
        call.reply = _without_tokens(call.reply)


def _without_tokens(reply: Any) -> Any:
    if "choices" not in reply:
        return _without_content(reply)
    bare = [_without_content(choice) if isinstance(choice, dict) else choice for choice in reply["choices"]]
    return {**_without_content(reply), "choices": bare}


def _without_content(call_fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in call_fields.items() if name not in OF_TOKENS}


def _contains_tokens(reply: Any) -> bool:
    if not isinstance(reply, dict):
        return False
    holders = [reply, *(choice for choice in reply.get("choices") or [] if isinstance(choice, dict))]
    return any(holder.get(name) for holder in holders for name in OF_TOKENS)
