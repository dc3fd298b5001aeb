"""HTTP responses of chat servers. Nothing here imports torch."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from contract.completion_chunks import event_stream

SESSION, WORKSPACE = "x-session-id", "x-workspace-id"
"""The headers with which the gateway identifies a session and its workspace."""
MAX_MESSAGE_LENGTH = 500


def reply_response(reply: dict[str, Any], *, is_streamed: bool) -> Response:
    """A response in OpenAI's format; a stream has a single chunk of content, since chats are sampled in batches."""
    if not is_streamed:
        return JSONResponse(reply)
    return Response(event_stream(reply, with_usage=True), media_type="text/event-stream")


def error_response(status: int, message: str, code: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": "policy_error", "code": code}}, status)


def unreadable(problem: Exception) -> str:
    """The error for a chat that the policy's template can't render."""
    return f"The policy can't read this chat: {type(problem).__name__}: {problem}"[:MAX_MESSAGE_LENGTH]


def gone_response() -> Response:
    """For the log only: nobody reads it."""
    return error_response(499, "The client disconnected.", "gone")
