"""What the gateway answers instead of a reply, in the form of OpenAI's errors: that is what agents' libraries read."""

from __future__ import annotations

import math

from starlette.responses import JSONResponse


class GatewayRefusal(Exception):
    """Why a request isn't passed on, and what to do."""

    status = 400
    type = "invalid_request_error"
    code = "bad_request"
    wait: float | None = None
    """Seconds after which it may be asked again."""
    is_soon = False
    """An agent's library may well wait for it."""

    def body(self) -> dict[str, object]:
        return {"error": {"message": str(self), "type": self.type, "param": None, "code": self.code}}

    def response(self, body: dict[str, object] | None = None) -> JSONResponse:
        """body: in another protocol's form."""
        headers = {"x-should-retry": "false"} if self.status != 503 else {"retry-after": "1"}
        if self.wait is not None:
            headers["retry-after"] = str(math.ceil(max(self.wait, 1.0)))
            if self.is_soon:
                del headers["x-should-retry"]
        return JSONResponse(body or self.body(), self.status, headers)


class BadRequest(GatewayRefusal):
    """It's no chat request."""


class TooLarge(GatewayRefusal):
    """The body is larger than the gateway takes."""

    status = 413
    code = "request_too_large"


class NoSession(GatewayRefusal):
    """The key opens nothing."""

    status = 401
    type = "authentication_error"
    code = "invalid_api_key"


class NoSuchModel(GatewayRefusal):
    """The workspace has no such policy, or it's served nowhere."""

    status = 404
    code = "model_not_found"


class SessionEnded(GatewayRefusal):
    """The session is over."""

    status = 403
    type = "permission_error"
    code = "session_ended"


class BudgetSpent(GatewayRefusal):
    """The session has had all the calls or tokens that it may have."""

    status = 429
    type = "insufficient_quota"
    code = "budget_spent"


class RateLimited(GatewayRefusal):
    """The workspace or the session has had as many requests or tokens in the last minute as it may have."""

    status = 429
    type = "requests"
    code = "rate_limit_exceeded"
    is_soon = True

    def __init__(self, message: str, *, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


class LimitReached(BudgetSpent):
    """The workspace or the session has spent as much today as it may."""

    def __init__(self, message: str, *, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


class PriceUnknown(GatewayRefusal):
    """What is spent is limited, and nobody can tell what this would cost."""

    status = 403
    type = "permission_error"
    code = "price_unknown"


class NotSupported(GatewayRefusal):
    """The gateway has no such address."""

    status = 404
    code = "not_supported"


class NotSpoken(NotSupported):
    """What answers the session speaks another protocol."""

    def __init__(self, protocol: str) -> None:
        super().__init__(
            f"The policy's server doesn't speak {protocol}. Ask it for chat completions (/v1/chat/completions), or lead the session to a server that does, such as vLLM."
        )


class RecorderAway(GatewayRefusal):
    """Nothing can be recorded now, and this installation lets no call pass unrecorded."""

    status = 503
    type = "server_error"
    code = "recorder_away"


class UpstreamAway(GatewayRefusal):
    """The policy's server doesn't answer, or not with a chat completion."""

    status = 502
    type = "server_error"
    code = "upstream_away"
    may_have_computed = False
    """Whether the server may have done, and billed, what was asked of it."""


class UpstreamBroken(UpstreamAway):
    """The connection broke once the request was on its way."""

    may_have_computed = True


class UpstreamSlow(UpstreamBroken):
    """The policy's server took longer than the deadline."""

    status = 504
    code = "upstream_deadline"
