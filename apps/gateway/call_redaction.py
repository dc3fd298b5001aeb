"""Calls as they may be stored: without what the workspace's rules find, and then without the tokens that would spell it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from apps.gateway.models import Call, Join
from apps.redaction.redaction import Redaction, Rule, is_file, is_word_of_protocol, marker
from contract.values import Json

REDACTED = "Text of its chat was redacted, and its token ids would spell it."
OF_TOKENS = ("token_ids", "prompt_token_ids", "logprobs", "prompt_logprobs")
"""What a reply, or a choice of it, may say token by token."""
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
    """Take out of a call what rules find. messages, tools: all that its prompt was made of, of which the call itself has what is new.
    withheld: a reply in the call's protocol that says just that.

    Where anything of the prompt or the reply was replaced, here or in a call before, the token ids go, too: they are the text in other signs.
    """
    try:
        found = _replace(call, rules) or parent_is_redacted
        if not found and call.join != Join.TOKENS and (call.prompt_ids is not None or _says_tokens(call.reply)):
            found = _finds(rules, [list(messages), tools])  # the ids are of the whole prompt
    except Exception:  # nothing that couldn't be looked through is stored
        logger.exception("the rules of workspace %s failed", call.session.workspace_id)
        _withhold(call, withheld(WITHHELD))
        found = True
    if found:
        _take_tokens(call)


def _replace(call: Call, rules: Sequence[Rule]) -> bool:
    run = Redaction(rules)
    call.request = run.value(call.request)
    call.messages = run.value(call.messages, is_kept=_is_kept)
    call.tools = run.value(call.tools, is_kept=_is_kept)
    call.reply = run.value(call.reply, is_kept=_is_kept)
    call.error = run.text(call.error)
    return bool(run.found)


def _is_kept(name: str, value: Any) -> bool:
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


def _take_tokens(call: Call) -> None:
    call.is_redacted = True
    call.prompt_ids = call.sampled_ids = call.logprobs = None
    if call.reply is not None:
        call.untrainable = REDACTED
        call.reply = _without_tokens(call.reply)


def _without_tokens(reply: Any) -> Any:
    if "choices" not in reply:
        return _bare(reply)
    bare = [_bare(choice) if isinstance(choice, dict) else choice for choice in reply["choices"]]
    return {**_bare(reply), "choices": bare}


def _bare(held: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in held.items() if name not in OF_TOKENS}


def _says_tokens(reply: Any) -> bool:
    if not isinstance(reply, dict):
        return False
    holders = [reply, *(choice for choice in reply.get("choices") or [] if isinstance(choice, dict))]
    return any(holder.get(name) for holder in holders for name in OF_TOKENS)
