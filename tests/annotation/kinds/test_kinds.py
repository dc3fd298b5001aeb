"""Every kind of judgment is fully declared in its module, and no other code branches on the kind."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.annotation.kinds import KINDS, kind_of
from apps.annotation.kinds.answers import Choice, InspectionAnswer, Scores
from apps.annotation.kinds.questions import PairwiseAsks, RatingAsks, StepsAsks
from apps.annotation.models import Inspection, Item, Preference, Queue, Rating

ROOT = Path(__file__).resolve().parents[3]
OUTSIDE = [
    path
    for folder in ("apps", "workers")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not {"kinds", "models", "migrations"} & set(path.relative_to(ROOT).parts)
]
"""`models` declares the kinds as column values, and their tables."""
NAMES = set(Queue.Kind.values)
CLASSES = {
    cls.__name__
    for cls in (Preference, Inspection, Rating, PairwiseAsks, StepsAsks, RatingAsks, Choice, InspectionAnswer, Scores)
}
ASKED_OF_A_TEMPLATE = re.compile(rf"""kind\s*(==|!=|in)\s*["']({"|".join(NAMES)})["']""")


def is_a_kind(node: ast.AST) -> bool:
    """`Queue.Kind.STEPS`, or its value."""
    match node:
        case ast.Attribute(value=ast.Attribute(attr="Kind"), attr=name) if name.lower() in NAMES:
            return True
        case ast.Attribute(value=inner, attr="value"):
            return is_a_kind(inner)
        case _:
            return False


def is_of_a_kind(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Name) and node.id in CLASSES


def branches(tree: ast.AST) -> Iterator[int]:
    """Lines that branch on the kind: comparisons, patterns, look-ups, class checks."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                is_named = any(isinstance(side, ast.Constant) and side.value in NAMES for side in sides)
                of_a_kind = any(ast.unparse(side).rstrip("()").endswith("kind") for side in sides)
                if any(map(is_a_kind, sides)) or (is_named and of_a_kind):
                    yield node.lineno
            case ast.match_case(pattern=ast.MatchValue(value=value)) if is_a_kind(value):
                yield value.lineno
            case ast.MatchClass(cls=cls) if is_of_a_kind(cls):
                yield node.lineno
            case ast.Dict(keys=keys) if any(key is not None and is_a_kind(key) for key in keys):
                yield node.lineno
            case ast.Subscript(slice=index) if is_a_kind(index):
                yield node.lineno
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, cls]):
                if any(is_of_a_kind(pattern) for pattern in (cls.elts if isinstance(cls, ast.Tuple) else [cls])):
                    yield node.lineno


@pytest.mark.parametrize(
    "source",
    [
        "if queue.kind == Queue.Kind.STEPS: ...",
        "if Queue.Kind.PAIRWISE.value in kinds: ...",
        "if item.kind != 'rating': ...",
        "words = {Queue.Kind.PAIRWISE: 'pairs'}[queue.kind]",
        "match kind:\n    case Queue.Kind.STEPS: ...",
        "match judgment:\n    case Preference(): ...",
        "isinstance(judgment, (Preference, Rating))",
        "isinstance(asks, PairwiseAsks)",
    ],
)
def test_a_branch_on_the_kind_is_found(source: str) -> None:
    assert list(branches(ast.parse(source)))


def test_saying_which_kind_a_queue_is_to_have_is_no_branch() -> None:
    assert not list(branches(ast.parse("create_queue(kind=Queue.Kind.RATING, judged_by='model')")))


def test_only_the_kinds_ask_which_kind_it_is() -> None:
    asking = [f"{path.relative_to(ROOT)}:{line}" for path in OUTSIDE for line in branches(ast.parse(path.read_text()))]
    assert len(OUTSIDE) > 300
    assert not asking, "Ask the kind instead (apps/annotation/kinds): give it an attribute or a method."


def test_templates_do_not_ask_either() -> None:
    asking = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "templates").rglob("*.html"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if ASKED_OF_A_TEMPLATE.search(line)
    ]
    assert not asking


def test_each_value_of_the_column_has_its_kind() -> None:
    assert list(KINDS) == ["pairwise", "steps", "rating"] == Queue.Kind.values


@pytest.mark.parametrize(("name", "model"), [("pairwise", Preference), ("steps", Inspection), ("rating", Rating)])
def test_a_queue_its_items_and_its_judgments_are_of_one_kind(name: str, model: type) -> None:
    assert kind_of(Queue(kind=name)) is kind_of(Item(kind=name)) is kind_of(model()) is KINDS[name]


@pytest.mark.parametrize(
    ("name", "one", "other", "nothing"),
    [
        ("pairwise", Choice(1), Choice(-3), Choice(0)),
        ("steps", InspectionAnswer("solved"), InspectionAnswer("found_error", 2), InspectionAnswer("give_up")),
        (
            "steps",
            InspectionAnswer("found_error", 1),
            InspectionAnswer("found_error", 2),
            InspectionAnswer("bad_problem"),
        ),
        ("rating", Scores(thumb=1), Scores(thumb=-1), Scores({"polite": 1})),
    ],
)
def test_what_contradicts_is_said_by_the_kind(name: str, one: object, other: object, nothing: object) -> None:
    kind = KINDS[name]
    assert kind.stance(one) != kind.stance(other)
    assert kind.stance(nothing) is None
