"""The questions of a queue as JSON, as REST and `Queue.asks` hold them. Parses them, with errors that say where."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import Field

from contract import jsontext
from contract.quoting import legible

Type = Literal["comparison", "scale", "choice", "choices", "text"]
Scope = Literal["item", "step"]
Value = int | str | list[str]
"""An answer: a grade or a point, one option, several options, or text."""
Answers = dict[str, Value]
"""Key of a question -> its answer."""

MAX_QUESTIONS = 50
MAX_TEXT_LENGTH = 300
MAX_ANSWER_LENGTH = 5000
POINTS = range(2, 11)
OPTIONS = range(2, 11)
"""At most as many as there are digit keys to answer with."""
GRADES = {3: 1, 5: 2, 7: 3}
"""Points of a comparison -> its strongest grade: 5 points are −2 … +2."""
KEY = re.compile(r"[\w-]{1,60}")


@dataclass(frozen=True)
class Condition:
    """Ask a question only if an earlier one was answered with one of these."""

    question: Annotated[str, Field(description="Key of an earlier question: a scale, a choice or choices.")]
    any_of: Annotated[tuple[int | str, ...], Field(description="Points of that scale, or some of its options.")]


@dataclass(frozen=True)
class Question:
    """One question of a queue."""

    key: Annotated[
        str, Field(description="Identifies its answers, and never changes. If left out, it's derived from the text.")
    ]
    name: Annotated[str, Field(description="The question's text.")]
    points: Annotated[
        int,
        Field(
            description="For a scale, 2 to 10, starting at 1; for a comparison, 3, 5 or 7, with a tie in the middle."
        ),
    ] = 5
    low: Annotated[str, Field(description="Meaning of 1 on a scale.")] = ""
    high: Annotated[str, Field(description="Meaning of the highest point.")] = ""
    required: Annotated[bool, Field(description="Whether it must be answered when it's asked.")] = True
    type: Annotated[
        Type,
        Field(
            description="`scale`; `choice` of one option; `choices`, any number of them; `text`; `comparison`, "
            "for pairs only: which side is better in this respect."
        ),
    ] = "scale"
    options: Annotated[tuple[str, ...], Field(description="For choice or choices: 2 to 10.")] = ()
    per: Annotated[Scope, Field(description="Asked once, or of every step.")] = "item"
    when: Annotated[Condition | None, Field(description="If left out, it's always asked.")] = None

    @property
    def most(self) -> int:
        """The strongest grade of a comparison."""
        return GRADES[self.points]

    @property
    def values(self) -> Sequence[int | str]:
        """The possible answers in display order; for a comparison, those that favor the left side first."""
        match self.type:
            case "comparison":
                return range(self.most, -self.most - 1, -1)
            case "scale":
                return range(1, self.points + 1)
            case _:
                return self.options

    def takes(self, value: Any) -> bool:
        """Whether `value` is a valid answer."""
        match self.type:
            case "comparison" | "scale":
                return type(value) is int and value in self.values
            case "choice":
                return type(value) is str and value in self.options
            case "choices":
                return type(value) is list and bool(value) and value == [o for o in self.options if o in value]
            case "text":
                return type(value) is str and 0 < len(value) <= MAX_ANSWER_LENGTH

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild from `to_json`'s output. Input from outside goes through `read`."""
        when = data.get("when")
        condition = Condition(when["question"], tuple(when["any_of"])) if when else None
        return cls(**{**data, "options": tuple(data.get("options", ())), "when": condition})

    def to_json(self) -> dict[str, Any]:
        """As JSON, without fields that its type doesn't use or that have their default."""
        data: dict[str, Any] = {"key": self.key, "name": self.name, "type": self.type}
        for name in OF_TYPE[self.type]:
            value = getattr(self, name)
            if value != "":
                data[name] = list(value) if name == "options" else value
        data["required"] = self.required
        if self.per != "item":
            data["per"] = self.per
        if self.when:
            data["when"] = {"question": self.when.question, "any_of": list(self.when.any_of)}
        return data


OF_TYPE: dict[Type, tuple[str, ...]] = {
    "comparison": ("points",),
    "scale": ("points", "low", "high"),
    "choice": ("options",),
    "choices": ("options",),
    "text": (),
}
"""Fields that only some types have."""
CONDITIONED = ("scale", "choice", "choices")
"""Types whose answers can be conditions. Comparisons can't: annotators don't know which side is which."""


def asked(questions: Sequence[Question], answers: Mapping[str, Any]) -> list[Question]:
    """The questions that apply, given these answers, in order."""
    shown: dict[str, Question] = {}
    for question in questions:
        when = question.when
        if when and (when.question not in shown or not _meets(answers.get(when.question), when)):
            continue
        shown[question.key] = question
    return list(shown.values())


def _meets(value: Any, when: Condition) -> bool:
    return bool(set(value if isinstance(value, list) else [value]) & set(when.any_of))


class BadQuestions(ValueError):
    """Not a valid list of questions: where, what was given, what was expected."""


class Allowed(NamedTuple):
    """Which questions the items of a queue allow."""

    comparisons: bool
    """Whether items have two sides."""
    steps: bool
    """Whether items have steps."""


def read(source: str | Sequence[Any], allowed: Allowed) -> tuple[Question, ...]:
    """Parse questions from JSON text or decoded JSON. Empty text means no questions. Raises BadQuestions."""
    lines: Sequence[int | None]
    if isinstance(source, str):
        values, lines = _parsed(source)
    elif isinstance(source, list | tuple):
        values, lines = list(source), [None] * len(source)
    else:
        raise BadQuestions(f"Got {jsontext.describe(source)}; expected {EXPECTED}.")
    if len(values) > MAX_QUESTIONS:
        raise BadQuestions(f"Got {len(values)} questions; expected at most {MAX_QUESTIONS}.")
    questions: list[Question] = []
    for number, (value, line) in enumerate(zip(values, lines, strict=True), start=1):
        name = value.get("name") if isinstance(value, dict) else None
        quoted = f" (“{legible(name, 60)}”)" if isinstance(name, str) and name.strip() else ""
        location = f"{f'Line {line}, q' if line else 'Q'}uestion {number}{quoted}"
        questions.append(_Reader(value, location, allowed, questions).question())
    return tuple(questions)


EXPECTED = 'a list of questions, such as [{"name": "Was it polite?", "type": "scale"}]'


def _parsed(text: str) -> tuple[list[Any], list[int]]:
    """The elements of a JSON list, with the line on which each starts."""
    if not text.strip():
        return [], []
    try:
        data = json.loads(text)
    except RecursionError:
        raise BadQuestions(f"It is nested too deeply; expected {EXPECTED}.") from None
    except json.JSONDecodeError as error:
        line = text.splitlines()[error.lineno - 1] if error.lineno <= len(text.splitlines()) else ""
        location = f"Line {error.lineno}, column {error.colno}"
        problem = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise BadQuestions(f"{location}: {problem}, in “{legible(line, 80)}”. Expected {EXPECTED}.") from None
    except ValueError:
        raise BadQuestions(f"A number has too many digits; expected {EXPECTED}.") from None
    if not isinstance(data, list):
        raise BadQuestions(f"Line 1: got {jsontext.describe(data)}; expected {EXPECTED}.")
    decoder, lines, at = json.JSONDecoder(), [], text.index("[") + 1
    for _ in data[
        :MAX_QUESTIONS
    ]:  # more are refused anyway, and finding each one's line takes time proportional to the text
        at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n,"))
        lines.append(text.count("\n", 0, at) + 1)
        at = decoder.raw_decode(text, at)[1]
    return data, lines


class _Reader:
    """Parses one question, given its location and the questions before it."""

    def __init__(self, value: Any, location: str, allowed: Allowed, before: Sequence[Question]) -> None:
        self.place = location
        self.allowed = allowed
        self.before = {question.key: question for question in before}
        if not isinstance(value, dict):
            raise self.problem("", jsontext.describe(value), 'an object such as {"name": "Was it polite?"}')
        self.value = value

    def problem(self, field: str, got: str, expected: str) -> BadQuestions:
        actual = f"`{field}` is {got}" if field else f"got {got}"
        return BadQuestions(f"{self.place}: {actual}; expected {expected}.")

    def question(self) -> Question:
        field_names = [field.name for field in fields(Question)]
        if unknown := [name for name in self.value if name not in field_names]:
            raise self.problem(legible(str(unknown[0]), 60), "no field of a question", f"only {', '.join(field_names)}")
        kind: Type = self.one_of("type", get_args(Type), "scale")
        name = self.text("name", MAX_TEXT_LENGTH)
        if not name:
            raise self.problem("name", "empty", "the question's text")
        question = Question(
            self.key(name),
            name,
            required=self.flag("required"),
            type=kind,
            per=self.one_of("per", get_args(Scope), "item"),
        )
        self.check_place(question)
        useless = {name for names in OF_TYPE.values() for name in names} - set(OF_TYPE[kind])
        if unexpected := sorted(useless & self.value.keys()):
            raise self.problem(unexpected[0], "given", f"none: a question of type {kind} has no {unexpected[0]}")
        if "points" in OF_TYPE[kind]:
            question = replace(question, points=self.points(kind))
        if kind == "scale":
            question = replace(question, low=self.text("low", 100), high=self.text("high", 100))
        if "options" in OF_TYPE[kind]:
            question = replace(question, options=self.options())
        return replace(question, when=self.when(question))

    def key(self, name: str) -> str:
        key = self.value.get("key") or slug(name)
        if not key:
            raise self.problem("name", self.shown(name), "a letter or a digit in it, or a `key`")
        if not isinstance(key, str) or not KEY.fullmatch(key):
            raise self.problem("key", self.shown(key), "1 to 60 letters, digits, - and _")
        if key in self.before:
            raise self.problem(
                "key", f"“{key}”, like that of “{self.before[key].name}”", "another one, or another text"
            )
        return key

    def check_place(self, question: Question) -> None:
        if question.type == "comparison" and not self.allowed.comparisons:
            raise self.problem(
                "type", "comparison, which needs two sides", "scale, choice, choices or text in this queue"
            )
        if question.per == "step" and not self.allowed.steps:
            raise self.problem("per", "step", "item: the two trajectories of a pair share no steps")

    def points(self, kind: Type) -> int:
        points = self.value.get("points", 5)
        allowed = GRADES if kind == "comparison" else POINTS
        if type(points) is not int or points not in allowed:
            expected = "3, 5 or 7" if kind == "comparison" else f"a whole number from {POINTS[0]} to {POINTS[-1]}"
            raise self.problem("points", self.shown(points), expected)
        return points

    def options(self) -> tuple[str, ...]:
        entries = self.value.get("options")
        if not isinstance(entries, list) or len(entries) not in OPTIONS:
            got = f"{len(entries)} options" if isinstance(entries, list) else jsontext.describe(entries)
            raise self.problem("options", got, f"a list of {OPTIONS[0]} to {OPTIONS[-1]} texts")
        for option in entries:
            if not isinstance(option, str) or not option.strip() or len(option) > 100 or not _is_storable(option):
                raise self.problem("options", f"a list with {self.shown(option)}", "texts of 1 to 100 characters")
        options = tuple(option.strip() for option in entries)
        if twice := [option for index, option in enumerate(options) if option in options[:index]]:
            raise self.problem("options", f"a list with “{legible(twice[0], 60)}” twice", "different texts")
        return options

    def when(self, question: Question) -> Condition | None:
        condition = self.value.get("when")
        if condition is None:
            return None
        shape = '{"question": key of an earlier one, "any_of": [answers]}'
        if (
            not isinstance(condition, dict)
            or condition.keys() != {"question", "any_of"}
            or not isinstance(condition["any_of"], list)
        ):
            raise self.problem("when", self.shown(condition), shape)
        key = condition["question"]
        earlier = self.before.get(key) if isinstance(key, str) else None
        if earlier is None or earlier.type not in CONDITIONED:
            conditional = [question.key for question in self.before.values() if question.type in CONDITIONED]
            raise self.problem(
                "when.question",
                self.shown(key),
                f"an earlier scale, choice or choices: {', '.join(conditional) or 'there is none'}",
            )
        if earlier.per == "step" and question.per == "item":
            raise self.problem(
                "when.question", f"“{key}”, which is asked of every step", "a question that is asked once"
            )
        if invalid := [
            value for value in condition["any_of"] if type(value) not in (int, str) or value not in earlier.values
        ]:
            raise self.problem("when.any_of", f"a list with {self.shown(invalid[0])}", f"answers of “{earlier.name}”")
        if not condition["any_of"]:
            raise self.problem("when.any_of", "empty", f"at least one answer of “{earlier.name}”")
        return Condition(key, tuple(value for value in earlier.values if value in condition["any_of"]))

    def one_of(self, name: str, choices: Sequence[str], default: str) -> Any:
        value = self.value.get(name, default)
        if value not in choices:
            raise self.problem(name, self.shown(value), f"one of {', '.join(choices)}")
        return value

    def text(self, name: str, max_length: int) -> str:
        value = self.value.get(name, "")
        if not isinstance(value, str) or len(value) > max_length or not _is_storable(value):
            raise self.problem(name, self.shown(value), f"a text of at most {max_length} characters")
        return value.strip()

    def flag(self, name: str) -> bool:
        value = self.value.get(name, True)
        if not isinstance(value, bool):
            raise self.problem(name, self.shown(value), "true or false")
        return value

    def shown(self, value: Any) -> str:
        return f"`{legible(json.dumps(value, ensure_ascii=False, default=str), 60)}`"


def _is_storable(text: str) -> bool:
    """Whether Postgres can store it: no NUL, no lone surrogate."""
    return "\x00" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def slug(name: str) -> str:
    """A key made from a text: “Was it polite?” is was-it-polite. Empty if it has no letter or digit."""
    plain = re.sub(r"[^\w\s-]", "", unicodedata.normalize("NFKC", name).lower())
    return re.sub(r"[-\s]+", "-", plain).strip("-_")[:60]
