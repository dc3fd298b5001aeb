"""The effect of rules on text and JSON."""

import random
import time
from typing import Any

import pytest

from apps.redaction import patterns
from apps.redaction.detectors import DETECTORS, whole
from apps.redaction.patterns import Pattern, PatternRefused, checked
from apps.redaction.redaction import Redaction, Rule, is_word_of_protocol

ALL = [Rule(detector.name, Pattern(detector.pattern), detector.check) for detector in DETECTORS.values()]


def rule(pattern: str, name: str = "x") -> Rule:
    return Rule(name, Pattern(pattern), whole)


@pytest.mark.parametrize(
    ("value", "redacted"),
    [
        ({"to": ["ada@example.org", 7]}, {"to": ["[redacted: e-mail]", 7]}),
        ({"card": 4111111111111111, "n": 12}, {"card": "[redacted: card]", "n": 12}),
        ({"a@b.org": 1, "c@d.org": 2}, {"[redacted: e-mail]": 1, "[redacted: e-mail] (2)": 2}),
        ('{"to": "ada\\u0040example.org"}', '{"to":"[redacted: e-mail]"}'),
        ('{"a": "{\\"to\\": \\"ada\\\\u0040example.org\\"}"}', '{"a":"{\\"to\\":\\"[redacted: e-mail]\\"}"}'),
        ('{"a":  1}', '{"a":  1}'),
        ("[broken ada@example.org", "[broken [redacted: e-mail]"),
        ("\ud800 ada@example.org \ud800", "\ud800 [redacted: e-mail] \ud800"),
        ("data:image/png;base64,AKIAA1B2A1B2A1B2A1B2", "data:image/png;base64,AKIAA1B2A1B2A1B2A1B2"),
        ([None, True, 1.5, ""], [None, True, 1.5, ""]),
    ],
)
def test_values_are_looked_through_whatever_holds_them(value: Any, redacted: Any) -> None:
    assert Redaction(ALL).value(value) == redacted


def test_matches_that_overlap_are_one() -> None:
    run = Redaction([rule("bcd", "one"), rule("abc", "two")])
    assert run.text("xabcdx") == "x[redacted: two]x"
    assert run.found == {"two": 1}


def test_an_anchor_holds_for_each_text_and_not_for_all_together() -> None:
    assert Redaction([rule("^a$")]).value(["a", "ba", "a"]) == ["[redacted: x]", "ba", "[redacted: x]"]


def test_words_of_the_protocol_stay_whatever_a_pattern_says() -> None:
    message = {"role": "user", "content": "hello"}
    run = Redaction([rule(r"\w+")])
    assert run.value([message], is_kept=is_word_of_protocol) == [{"role": "user", "content": "[redacted: x]"}]
    assert Redaction(ALL).value({"role": "ada@example.org"}, is_kept=is_word_of_protocol) == {
        "role": "[redacted: e-mail]"
    }


def test_what_is_asked_about_together_is_what_is_found_alone() -> None:
    """Thousands of texts with and without matches, next to each other in every order."""
    draw = random.Random(7)
    parts = [
        "ada@example.org",
        "4111111111111111",
        "lamp",
        "203.0.113.7",
        "7",
        "\n",
        " ",
        "x",
        "DE89370400440532013000",
    ]
    texts = ["".join(draw.choices(parts, k=draw.randint(1, 4))) for _ in range(1000)]
    alone = [Redaction(ALL).text(text) for text in texts]
    assert Redaction(ALL).value(texts) == alone
    assert 100 < sum("[redacted" in text for text in alone) < 1000


def test_what_cannot_be_looked_through_in_time_is_withheld() -> None:
    """A pattern that reads to the end of the text for each of very many matches."""
    run = Redaction([rule("(?s)(.*Z)|a")], cpu_seconds=0.05)
    began = time.thread_time()
    assert run.text("a" * 2_000_000) == "[redacted: unchecked text]"
    assert time.thread_time() - began < 30  # instead of hours
    assert run.value({"role": "b"}) == {"[redacted: unchecked text]": "[redacted: unchecked text]"}


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(a", "missing"),
        (r"(?=a)", "invalid"),
        ("a*", "empty text"),
        ("x" * 501, "501 characters"),
        (r"\pL{10}", "11,964 instructions"),
        (r"(?:\pL{900}){900}", "RE2 can't read"),
    ],
)
def test_patterns_that_cannot_be_used_are_refused_in_words(pattern: str, problem: str) -> None:
    with pytest.raises(PatternRefused, match=problem):
        checked(pattern)


def test_a_pattern_of_the_largest_size_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "LARGEST_PROGRAM", checked("[a-f]{20}").size)
    assert checked("[a-f]{20}")
    with pytest.raises(PatternRefused):
        checked("[a-f]{21}")


def test_thousands_of_names_with_one_marker_take_time_in_proportion() -> None:
    """Each key once searched for a free number from 1 on: 8,000 addresses took 3 s, and 64,000 three minutes, regardless of the time limit for rules."""
    names = {f"u{number}@example.org": number for number in range(64_000)}
    began = time.thread_time()
    redacted = Redaction(ALL).value(names)
    assert time.thread_time() - began < 20
    assert list(redacted.values()) == list(names.values())
    taken = {"[redacted: e-mail] (2)": 0, "a@b.org": 1, "b@b.org": 2}
    assert list(Redaction(ALL).value(taken)) == [
        "[redacted: e-mail] (2)",
        "[redacted: e-mail]",
        "[redacted: e-mail] (3)",
    ]


def test_a_text_that_is_too_long_for_a_pattern_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search can't be interrupted, and in the worst case takes a step per instruction and character."""
    slow = checked(r"[ab]*a[ab]{1000}[ab]{1000}c")
    assert slow.longest is not None
    fits, random_letters = slow.longest, random.Random(1)
    text = "".join(random_letters.choice("ab") for _ in range(40 * fits))
    began = time.thread_time()
    run = Redaction([Rule("x", slow, whole)])
    assert run.value([text, "short"]) == ["[redacted: unchecked text]", "short"]
    assert time.thread_time() - began < 10
    assert Redaction(ALL).value(["a" * 10_000_000]) == ["a" * 10_000_000]  # detectors have few states
