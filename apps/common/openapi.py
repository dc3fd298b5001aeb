"""The OpenAPI schema's common parts: bearer tokens, and the errors of every operation."""

from __future__ import annotations

import re
from typing import Any, Literal

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework.serializers import CharField

from apps.common.idempotency import HEADER, MAX_CHARACTERS

KEY = OpenApiParameter(
    HEADER,
    {"type": "string", "maxLength": MAX_CHARACTERS},
    OpenApiParameter.HEADER,
    description=f"At most {MAX_CHARACTERS} characters. The same request with the same key within a day is carried out once, and gets the same response.",
)


ADDRESS = re.compile(r"[A-Z]+(, [A-Z]+)* /")
"""How the docstring of a view begins if it only says where the view is."""


class ApiSchema(AutoSchema):
    """Adds the responses of authentication, access, and throttling to every operation."""

    def get_description(self) -> str:  # type: ignore[override]  # as in drf-spectacular
        description = super().get_description()
        return "" if ADDRESS.match(description) else description

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> Any:
        answers = super()._get_response_bodies(direction)
        for status, description in self._refusals().items():
            answers.setdefault(status, {"description": description, **_error_body()})
        answers["429"]["headers"] = {
            "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds until the next request is allowed."}
        }
        return answers

    def get_override_parameters(self) -> list[Any]:
        return [KEY] if self._keeps_answers() else []

    def _keeps_answers(self) -> bool:
        return self.method == "POST" and getattr(self.view, "keeps_answers", False)

    def _refusals(self) -> dict[str, str]:
        of_keys = {
            "409": f"The first request with the {HEADER} is still being answered.",
            "422": f"The {HEADER} was used for another request.",
        }
        return {
            **(of_keys if self._keeps_answers() else {}),
            "400": "The request is invalid; `fields` says where.",
            "401": "No token, or one that is unknown, revoked, or expired.",
            "404": "Not found, or not in this token's workspace.",
            "429": "Too many requests.",
        }


def _error_body() -> dict[str, Any]:
    return {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}


def describe_errors(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add the `Error` component that `ApiSchema` refers to. A hook of drf-spectacular."""
    result.setdefault("components", {}).setdefault("schemas", {})["Error"] = {
        "type": "object",
        "description": "What went wrong, and what to do now.",
        "properties": {
            "detail": {"type": "string", "description": "The problem and the remedy, in one or two sentences."},
            "fields": {
                "type": "object",
                "description": "What is wrong with each field of the request.",
                "additionalProperties": {"type": "array", "items": {"type": "string"}},
            },
        },
        "required": ["detail"],
    }
    return result


class RequestBody(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]  # drf-spectacular has no types here
    """Describes what `RequestSerializer` refuses: unknown fields, and blank text where text is required."""

    target_class = "apps.common.api.RequestSerializer"
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: Literal["request", "response"]) -> Any:
        described = auto_schema._map_basic_serializer(self.target, direction)  # type: ignore[no-untyped-call]
        for name, field in self.target.fields.items():
            text = described["properties"].get(name, {})
            if isinstance(field, CharField) and not field.allow_blank and text.get("type") == "string":
                text.setdefault("minLength", 1)
        return {**described, "additionalProperties": False}


class Session(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular has no types here
    """Describes `apps.accounts.authentication.SessionAuthentication`."""

    target_class = "apps.accounts.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        description = "The cookie of a signed-in page; requests that change something also need its CSRF token."
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME, "description": description}


class BearerToken(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular has no types here
    """Describes `apps.accounts.authentication.BearerTokenAuthentication`."""

    target_class = "apps.accounts.authentication.BearerTokenAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "A token made under Settings, API tokens: `rt_…`."}
