"""Rate limits, counted in Valkey and so shared by all web processes."""

from collections.abc import Callable
from dataclasses import dataclass
from time import time

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.common.quantities import duration


class TooManyTries(Exception):
    """The limit is reached. `retry_after` is in whole seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"Too many tries. Try again in {retry_after} s.")
        self.retry_after = retry_after


@dataclass(frozen=True)
class Limit:
    """At most `tries` in every window of `seconds`; windows start at multiples of `seconds`."""

    name: str
    tries: int
    seconds: int

    def count(self, subject: str) -> None:
        """Count a try by `subject`. Raises TooManyTries beyond the limit; further tries also count."""
        if self._counted(self._key(subject)) > self.tries:
            raise TooManyTries(retry_after=self.seconds - int(time()) % self.seconds)

    def reset(self, subject: str) -> None:
        """Reset the tries of `subject` in this window."""
        cache.delete(self._key(subject))

    def _counted(self, key: str) -> int:
        """The number of tries including this one."""
        while True:
            # add() keeps an existing value, so two concurrent first tries count as two.
            cache.add(key, 0, timeout=self.seconds + 5)
            try:
                return cache.incr(key)
            except ValueError:  # a concurrent try succeeded in between and reset the count
                continue

    def _key(self, subject: str) -> str:
        return f"limit:{self.name}:{int(time()) // self.seconds}:{subject}"


class TooManyTriesMiddleware:
    """Turns an unhandled TooManyTries into a page with status 429 that says when to retry."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return too_many(request, exception) if isinstance(exception, TooManyTries) else None


def too_many(request: HttpRequest, refusal: TooManyTries) -> HttpResponse:
    """The page that says when to try again."""
    response = render(request, "429.html", {"wait": duration(refusal.retry_after)}, status=429)
    response["Retry-After"] = str(refusal.retry_after)
    return response
