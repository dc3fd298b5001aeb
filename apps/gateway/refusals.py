"""Error responses of the gateway, in the form of OpenAI's errors, which agents' libraries can read."""

from __future__ import annotations

import math

from starlette.responses import JSONResponse


class GatewayRefusal(Exception):
    """Why a request isn't passed on, and what to do."""

    status = 400
    type = "invalid_request_error"
    code = "bad_request"
    wait: float | None = None
    """Seconds after which a retry makes sense."""
    is_soon = False
    """Soon enough that an agent's library should wait."""

    def body(self) -> dict[str, object]:
        return {"error": {"message": str(self), "type": self.type, "param": None, "code": self.code}}

    def response(self, body: dict[str, object] | None = None) -> JSONResponse:
        """body: the error in another protocol's form."""
        headers = {"x-should-retry": "false"} if self.status != 503 else {"retry-after": "1"}
        if self.wait is not None:
            headers["retry-after"] = str(math.ceil(max(self.wait, 1.0)))
            if self.is_soon:
                del headers["x-should-retry"]
        return JSONResponse(body or self.body(), self.status, headers)


class BadRequest(GatewayRefusal):
    """The body isn't a chat request."""


class TooLarge(GatewayRefusal):
    """The body is larger than the gateway accepts."""

    status = 413
    code = "request_too_large"


class Crowded(GatewayRefusal):
    """This process has reached its memory limit for the workspace's calls, or for all calls."""

    status = 503
    type = "server_error"
    code = "crowded"


class NoSession(GatewayRefusal):
    """The key is invalid."""

    status = 401
    type = "authentication_error"
    code = "invalid_api_key"


class NoSuchModel(GatewayRefusal):
    """The workspace has no such policy, or it isn't served anywhere."""

    status = 404
    code = "model_not_found"


class SessionEnded(GatewayRefusal):
    """The session is over."""

    status = 403
    type = "permission_error"
    code = "session_ended"


class BudgetSpent(GatewayRefusal):
    """The session's calls or tokens are used up."""

    status = 429
    type = "insufficient_quota"
    code = "budget_spent"


class RateLimited(GatewayRefusal):
    """The workspace or the session has reached its requests or tokens per minute."""

    status = 429
    type = "requests"
    code = "rate_limit_exceeded"
    is_soon = True

    def __init__(self, message: str, *, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


class LimitReached(BudgetSpent):
    """The workspace or the session has reached its spending limit for today."""

    def __init__(self, message: str, *, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


class PriceUnknown(GatewayRefusal):
    """Spending is limited, but the price of this call is unknown."""

    status = 403
    type = "permission_error"
    code = "price_unknown"


class NotSupported(GatewayRefusal):
    """The gateway has no such address."""

    status = 404
    code = "not_supported"


class NotSpoken(NotSupported):
    """The session's server doesn't support this protocol."""

    def __init__(self, protocol: str) -> None:
        super().__init__(
            f"The policy's server doesn't speak {protocol}. Ask it for chat completions (/v1/chat/completions), or create the session with a policy whose server does, such as vLLM."
        )


class RecorderAway(GatewayRefusal):
    """Nothing can be recorded now, and this installation doesn't pass calls unrecorded."""

    status = 503
    type = "server_error"
    code = "recorder_away"


class UpstreamAway(GatewayRefusal):
    """The policy's server doesn't answer, or not with a valid reply."""

    status = 502
    type = "server_error"
    code = "upstream_away"
    may_have_computed = False
    """Whether the server may have computed, and billed, the request."""


class UpstreamBroken(UpstreamAway):
    """The connection broke after the request was sent."""

    may_have_computed = True


class UpstreamSlow(UpstreamBroken):
    """The policy's server exceeded the deadline."""

    status = 504
    code = "upstream_deadline"
