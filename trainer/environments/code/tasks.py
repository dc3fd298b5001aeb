"""Draws repair tasks: a function with a bug or two, examples to see, and hidden tests to pass.

Levels: L1 has one wrong token and an example that shows it. L2 has two. L3 has one that no example shows: only the function's
description reveals it. Functions are either for training or held out: no held-out function is ever broken in training.
"""

import ast
import inspect
import json
import random
import zlib
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, get_type_hints

from contract.trajectory import Task
from contract.values import JsonObject
from trainer.environments.code.bugs import ENDLESS, mutate_once, outcomes, parsed
from trainer.environments.code.programs import PROGRAMS
from trainer.environments.protocol import Split

LEVELS = ("L1", "L2", "L3")
EXAMPLES = 3
HIDDEN = 8
DRAWN_CALLS = 30
TRIES = 20
HELD_OUT_ONE_IN = 3
WORDS = (
    "level",
    "Anna",
    "sun",
    "rotor",
    "apple",
    "tree",
    "noon",
    "Otto",
    "bridge",
    "aa",
    "(a)",
    "((b)c)",
    ")(",
    "zz top",
    "queue",
)


def code_tasks(*, levels: tuple[str, ...], split: Split, seed: int) -> Iterator[Task]:
    """An endless stream of tasks, cycling through the levels; the n-th task of a level, split, and seed is always the same."""
    for number in count():
        for level in levels:
            yield code_task(level, split, seed, number)


def code_task(level: str, split: Split, seed: int, number: int) -> Task:
    rng = random.Random(f"code {level} {split} {seed} {number}")
    programs = [program for program in PROGRAMS if is_held_out(program) == (split == "held_out")]
    program, bug = drawn_bug(programs, level, rng)
    return Task(
        key=f"code/{level}/{split}/{number}" + (f"@{seed}" if seed else ""),
        instruction=f"Repair the function {program.__name__}. {purpose(program)} Example: {example_text(program, bug['examples'][0])}.",
        environment="code",
        initial_state={"function": program.__name__, "source": bug["source"], "examples": bug["examples"]},
        success_check={"tests": bug["tests"], "fixes": bug["fixes"]},
        category=program.__name__,
        difficulty=level,
        held_out=split == "held_out",
    )


def drawn_bug(
    programs: list[Callable[..., Any]], level: str, rng: random.Random
) -> tuple[Callable[..., Any], JsonObject]:
    """A uniformly drawn function with a bug of the level."""
    for program in rng.sample(programs, len(programs)):
        for _ in range(TRIES):
            bug = bug_in(program, level, rng)
            if bug is not None:
                return program, bug
    raise AssertionError(f"no function has a bug of level {level}")


def bug_in(program: Callable[..., Any], level: str, rng: random.Random) -> JsonObject | None:
    """A broken version with examples and tests that suit the level, or None if this draw yields none."""
    right = parsed(inspect.getsource(program))
    wrong = mutate_once(right, rng)
    if level == "L2":
        wrong = mutate_once(wrong, rng)
    fixes = different_lines(right, wrong)
    if level == "L2" and len(fixes) < 2:
        return None
    calls = different([drawn_arguments(program, rng) for _ in range(DRAWN_CALLS)])
    expected = outcomes(right, program.__name__, calls)
    got = outcomes(wrong, program.__name__, calls)
    if ENDLESS in got:  # each run of the tests would cost seconds
        return None
    cases = [{"arguments": arguments, "expected": answer} for arguments, answer in zip(calls, expected, strict=True)]
    failing = [case for case, answer in zip(cases, got, strict=True) if not same(answer, case["expected"])]
    passing = [case for case in cases if case not in failing]
    shown = passing[:EXAMPLES] if level == "L3" else failing[:1] + passing[: EXAMPLES - 1]
    rng.shuffle(shown)
    not_shown = [case for case in failing if case not in shown]
    unseen = [case for case in passing if case not in shown]
    tests = (not_shown[: HIDDEN // 2] + unseen + not_shown[HIDDEN // 2 :])[:HIDDEN]
    if len(shown) < EXAMPLES or not not_shown or len(tests) < HIDDEN:
        return None
    return {"source": ast.unparse(wrong), "examples": shown, "tests": tests, "fixes": fixes}


def different_lines(right: ast.Module, wrong: ast.Module) -> list[JsonObject]:
    """[{"line": from 1, "text": how it should read}]"""
    pairs = zip(ast.unparse(right).split("\n"), ast.unparse(wrong).split("\n"), strict=True)
    return [{"line": line, "text": text} for line, (text, other) in enumerate(pairs, start=1) if text != other]


def drawn_arguments(program: Callable[..., Any], rng: random.Random) -> list[Any]:
    """Arguments of the program's types, often small or empty."""
    hints = get_type_hints(program)
    return [DRAW[str(hints[name])](rng) for name in inspect.signature(program).parameters]


DRAW: dict[str, Callable[[random.Random], Any]] = {
    str(int): lambda rng: rng.choice((rng.randint(-3, 6), rng.randint(0, 12), rng.randint(0, 40), 100, 400)),
    str(list[int]): lambda rng: [rng.randint(-4, 9) for _ in range(rng.choice((0, 1, 2, 3, 4, 5, 6)))],
    str(str): lambda rng: " ".join(rng.choice(WORDS) for _ in range(rng.choice((0, 1, 1, 2, 3)))),
}


def different(calls: list[list[Any]]) -> list[list[Any]]:
    return [json.loads(text) for text in dict.fromkeys(json.dumps(arguments) for arguments in calls)]


def same(first: object, second: object) -> bool:
    """Whether two values are equal as JSON: True is not 1, and 1 is not 1.0."""
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


def is_held_out(program: Callable[..., Any]) -> bool:
    return zlib.crc32(program.__name__.encode()) % HELD_OUT_ONE_IN == 0


def purpose(program: Callable[..., Any]) -> str:
    return " ".join((inspect.getdoc(program) or "").split())


def example_text(program: Callable[..., Any], case: JsonObject) -> str:
    arguments = ", ".join(map(repr, case["arguments"]))
    return f"{program.__name__}({arguments}) is {case['expected']!r}"
