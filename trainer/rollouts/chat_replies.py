"""How a server of chats answers over HTTP. Nothing here loads torch."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from contract.completion_chunks import event_stream

SESSION = "x-session-id"
"""The header by which the gateway says whose chat it is."""
LONGEST_WORDS = 500


def reply_response(reply: dict[str, Any], *, is_streamed: bool) -> Response:
    """A reply as OpenAI's clients read it; a streamed one comes in one piece, since chats are sampled in batches."""
    if not is_streamed:
        return JSONResponse(reply)
    return Response(event_stream(reply, with_usage=True), media_type="text/event-stream")


def error_response(status: int, message: str, code: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": "policy_error", "code": code}}, status)


def unreadable(problem: Exception) -> str:
    """What is said of a chat that the policy's template can't render."""
    return f"The policy can't read this chat: {type(problem).__name__}: {problem}"[:LONGEST_WORDS]
