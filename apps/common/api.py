"""Base classes of API views, and the format of errors.

An error is `{"detail": "what was wrong and what to do"}`. If fields of the request were invalid, it also has
`"fields": {name: [what is wrong with it]}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from django.db.models import QuerySet
from django.forms import Form
from django.http import Http404
from rest_framework import serializers, status
from rest_framework.exceptions import (
    APIException,
    MethodNotAllowed,
    NotAuthenticated,
    Throttled,
    UnsupportedMediaType,
    ValidationError,
)
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView, exception_handler

from apps.common.idempotency import answer_once, key_of
from apps.common.limits import TooManyTries
from apps.common.pages import ApiCursorPagination
from apps.common.text_encoding import holds_unstorable
from contract.quoting import legible

if TYPE_CHECKING:
    from apps.accounts.models import Membership


MAX_FIELDS = 50
CSRF_FIELD = "csrfmiddlewaretoken"
"""How session requests send their CSRF token."""
UNSTORABLE = "It holds a null character or a lone surrogate, which can't be stored."
MAX_PROBLEM_LENGTH = 1000
"""Maximum length of one message about a field, since some quote the input."""


class MemberView(APIView):
    """A view with `self.member`, the membership behind the request; set by `apps.accounts.authentication.IsMember`.

    `needs` is the minimum role (a `Role`) to access the address; `needs_to_write`, if higher, the minimum for unsafe methods.
    """

    member: Membership
    needs: ClassVar[int] = 0
    needs_to_write: ClassVar[int] = 0
    keeps_answers: ClassVar[bool] = True
    """Whether `Idempotency-Key` is honored. False for requests that are idempotent anyway."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        handler = getattr(self, "post", None)
        if request.method == "POST" and handler and self.keeps_answers and key_of(request):
            respond = partial(handler, request, *args, **kwargs)
            self.post = lambda *_, **__: answer_once(respond, request, membership_pk=self.member.pk)


class ListView(MemberView):
    """A view that returns a page of a list, newest first."""

    pagination_class = ApiCursorPagination

    def page_of(
        self, rows: QuerySet[Any], serializer: type[serializers.BaseSerializer[Any]], **context: Any
    ) -> Response:
        """The requested page. The serializer's context has the request, the member, and `context`."""
        pages = self.pagination_class()
        page = pages.paginate_queryset(rows, self.request, view=self)
        serializer_context = {"request": self.request, "member": self.member, **context}
        return pages.get_paginated_response(serializer(page, many=True, context=serializer_context).data)


class Conflict(APIException):
    """The request is valid, but conflicts with the state of its object."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "conflict"


class RequestSerializer(serializers.Serializer[Any]):
    """The body of a request. Unknown fields are refused, since a misspelled one would be silently ignored."""

    def to_internal_value(self, data: Any) -> Any:
        field_names = {*self.fields, CSRF_FIELD}
        if isinstance(data, Mapping) and (unknown := sorted(map(str, set(data) - field_names))):
            problem = f"There is no such field; known fields: {', '.join(self.fields)}."
            raise ValidationError({name: [problem] for name in unknown})
        values = super().to_internal_value(data)
        if unstorable := [
            name
            for name, field in self.fields.items()
            if isinstance(field, serializers.JSONField | serializers.DictField)
            and holds_unstorable(values.get(field.source))
        ]:
            raise ValidationError({name: [UNSTORABLE] for name in unstorable})
        return values


def cleaned(form: Form) -> dict[str, Any]:
    """Validate a request with a form, so that the API and the page refuse the same input with the same messages. Raises ValidationError."""
    if not form.is_valid():
        raise ValidationError({name: list(map(str, problems)) for name, problems in form.errors.items()})
    return form.cleaned_data


def answer_error(error: Exception, context: dict[str, Any]) -> Response | None:
    """Convert an exception raised by a view to an error response; None if it isn't an API error, but a bug."""
    if isinstance(error, TooManyTries):
        error = Throttled(wait=error.retry_after)
    response = exception_handler(error, context)
    if response is None:
        return None
    if isinstance(error, ValidationError):
        response.data = _of_fields(response.data)
    elif isinstance(error, Http404) or response.status_code == status.HTTP_404_NOT_FOUND:
        response.data = {"detail": "Not found, or not visible to this token."}
    elif isinstance(error, NotAuthenticated):
        response.data = {"detail": "This needs a token: send it as `Authorization: Bearer rt_…`. See /api/docs/."}
    elif isinstance(error, MethodNotAllowed):
        methods = [name for name in context["view"].allowed_methods if name not in ("HEAD", "OPTIONS")]
        response.data = {
            "detail": f"{context['request'].method} isn't supported at this address; use {' or '.join(methods)}."
        }
    elif isinstance(error, UnsupportedMediaType):
        content_type = legible(context["request"].content_type or "", 60)
        response.data = {
            "detail": f"Content-Type “{content_type}” isn't accepted here. Send JSON, with `Content-Type: application/json`."
        }
    else:
        response.data = {"detail": next(_words(response.data["detail"]), "")}
    return response


def _of_fields(problems: Any) -> dict[str, Any]:
    if isinstance(problems, list):
        return {"detail": " ".join(islice(_words(problems), MAX_FIELDS))}
    if set(problems) == {"detail"}:
        return {"detail": next(_words(problems["detail"]))}
    shown_problems = list(problems.items())[:MAX_FIELDS]
    fields = {legible(str(name), 100): list(islice(_words(problem), MAX_FIELDS)) for name, problem in shown_problems}
    return {
        "detail": " ".join(f"{name}: {messages[0]}" for name, messages in fields.items() if messages),
        "fields": fields,
    }


def _words(problem: Any) -> Iterator[str]:
    """Each message in possibly nested lists and objects, prefixed with its path."""
    if isinstance(problem, Mapping):
        for name, inner in problem.items():
            yield from (f"{legible(str(name), 100)}: {message}" for message in _words(inner))
    elif isinstance(problem, list):
        for inner in problem:
            yield from _words(inner)
    else:
        yield legible(str(problem), MAX_PROBLEM_LENGTH)
