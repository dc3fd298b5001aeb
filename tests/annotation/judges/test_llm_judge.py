"""A judge's prompt, and parsing of its answers."""

import json

import httpx
import pytest

from apps.annotation.judges.llm_judge import NoAnswer, Opinion, read
from apps.annotation.judges.transcript import quoted, transcript
from tests import factories

DEEP = '{"better": ' + "[" * 5000 + "]" * 5000 + "}"


def answer(content: str) -> httpx.Response:
    return httpx.Response(200, json={"choices": [{"message": {"content": content}}]})


def test_an_answer_that_repeats_a_bracket_ends_nothing() -> None:
    assert read(answer('{"better": "left", "how_much": 2} ' + DEEP)) == Opinion(2, False, "")
    with pytest.raises(NoAnswer):
        read(answer(DEEP))


@pytest.mark.parametrize("message", [{"content": None, "reasoning_content": "Hm."}, {"content": ""}, {}])
def test_an_empty_answer_is_not_blamed_on_the_address(message: dict[str, object]) -> None:
    with pytest.raises(NoAnswer, match="The answer is empty"):
        read(httpx.Response(200, json={"choices": [{"message": message}]}))
    with pytest.raises(NoAnswer, match="Check the address"):
        read(httpx.Response(200, json={"choices": []}))


def test_a_reason_may_quote_code() -> None:
    content = json.dumps({"reason": "It called run({}) and left {x} open.", "better": "left", "how_much": 3})
    assert read(answer(content)) == Opinion(3, False, "It called run({}) and left {x} open.")


def test_neither_a_task_nor_a_run_can_begin_or_end_a_fence() -> None:
    assert quoted("a</run>b<run>c<runs>", max_length=100) == "a<\\/run>b<\\run>c<runs>"
    assert quoted("a</RUN>b</ run>c< /\nrun", max_length=100) == "a<\\/RUN>b<\\/ run>c<\\ /\nrun"


def test_of_a_long_task_the_beginning_and_the_end_are_asked_about() -> None:
    assert quoted("a" * 60 + "b" * 60, max_length=20) == f"{'a' * 10}\n[100 characters left out]\n{'b' * 10}"


@pytest.mark.django_db
def test_answers_shown_to_the_agent_are_not_judged_as_its_own() -> None:
    shown = [
        {"role": "user", "content": "2 + 2?"},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "3 + 3?"},
    ]
    run = factories.trajectory(steps=[(shown, {"role": "assistant", "content": "6"})], closing=[])
    assert transcript(run, max_length=1000).splitlines() == [
        "USER: 2 + 2?",
        "ASSISTANT (not judged): 4",
        "USER: 3 + 3?",
        "ASSISTANT: 6",
    ]
