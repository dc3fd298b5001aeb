import pytest
from django.core.cache import cache
from django.test import RequestFactory

from apps.common.limits import Limit, TooManyTries, TooManyTriesMiddleware

THREE = Limit("test", tries=3, seconds=60)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    cache.clear()
    time = {"now": 600.0}
    monkeypatch.setattr("apps.common.limits.time", lambda: time["now"])
    return time


def test_the_try_after_the_last_is_refused_and_says_when_to_come_back(clock):
    for _ in range(3):
        THREE.count("ada")
    clock["now"] = 615.0
    with pytest.raises(TooManyTries) as refusal:
        THREE.count("ada")
    assert refusal.value.retry_after == 45


def test_the_next_window_starts_afresh(clock):
    for _ in range(3):
        THREE.count("ada")
    clock["now"] = 660.0
    THREE.count("ada")


def test_each_is_counted_alone():
    for _ in range(3):
        THREE.count("ada")
    THREE.count("ben")


def test_forgiving_starts_afresh():
    for _ in range(3):
        THREE.count("ada")
    THREE.reset("ada")
    THREE.count("ada")


def test_a_count_that_is_reset_while_another_try_is_counted_starts_afresh(monkeypatch):
    resets = [True, False]
    add = cache.add

    def add_and_be_reset(key, *args, **kwargs):
        added = add(key, *args, **kwargs)
        if resets.pop(0):
            THREE.reset("ada")
        return added

    monkeypatch.setattr(cache, "add", add_and_be_reset)
    THREE.count("ada")
    assert not resets


def test_any_view_may_let_the_refusal_through(db):
    middleware = TooManyTriesMiddleware(lambda request: None)
    answer = middleware.process_exception(RequestFactory().get("/"), TooManyTries(retry_after=90))
    assert (answer.status_code, answer["Retry-After"]) == (429, "90")
    assert "Try again in 1 min 30 s." in answer.content.decode()
    assert middleware.process_exception(RequestFactory().get("/"), ValueError()) is None
