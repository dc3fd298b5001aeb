"""Repairing functions, judged by hidden tests, whatever the policy tries."""

import json
from typing import Any

import pytest

from contract import jsontext
from contract.messages import Message
from contract.trajectory import Task
from tests.trainer.environments.scripted_episodes import call, first_tasks, played, success_share
from trainer.environments.code import Code, passed_by
from trainer.environments.code.bugs import outcomes, parsed
from trainer.environments.protocol import Score

DOUBLE = "def double(number):\n    return number * 3"
TESTS = [{"arguments": [number], "expected": 2 * number} for number in (0, 1, 5, 7)]


def code(source: str = DOUBLE) -> Code:
    environment = Code()
    state = {"function": "double", "source": source, "examples": TESTS[:2]}
    environment.reset(Task(key="t", instruction="Repair it.", initial_state=state, success_check={"tests": TESTS}))
    return environment


def answer(environment: Code, tool: str, **arguments: object) -> Any:
    (message,) = environment.step(call(tool, **arguments)).observation
    return message["content"]


def test_a_repair_is_rewarded_by_how_many_hidden_tests_it_makes_pass():
    environment = code()
    assert environment.score() == Score(
        0.25,  # 0 * 3 equals 0 * 2
        False,
        {"hidden test 1": True, "hidden test 2": False, "hidden test 3": False, "hidden test 4": False},
    )
    repaired = environment.step(call("replace_line", line=2, text="    return number * 2"))
    assert (repaired.reward, repaired.done) == (0.75, False)
    assert environment.score().success
    assert environment.step(call("write_code", source="def double(number): return 'no'")).reward == -1.0
    assert environment.step({"role": "assistant", "content": "Repaired."}).done
    assert environment.score().reward == 0


def test_the_tools_show_change_and_try():
    environment = code()
    assert answer(environment, "show_code") == "1: def double(number):\n2:     return number * 3"
    assert json.loads(answer(environment, "call_function", arguments=[4])) == {"got": 12}
    assert json.loads(answer(environment, "run_examples"))[1] == {
        "arguments": [1],
        "expected": 2,
        "got": 3,
        "passed": False,
    }
    assert answer(environment, "replace_line", line=2, text="    return 1 / 0").endswith("2:     return 1 / 0")
    error = {"error": "ZeroDivisionError: division by zero (line 2)"}
    assert json.loads(answer(environment, "call_function", arguments=[4])) == error


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (call("replace_line", line=9, text=""), "line must be from 1 to 2, got 9"),
        (call("write_code", source="#" * 10_001), "the source must have at most 10000 characters, got 10001"),
        (call("call_function", arguments="4"), 'arguments must be of type array, got "4"'),
    ],
)
def test_a_failed_call_is_an_observation(action: Message, error: str):
    transition = code().step(action)
    assert transition.info["error"] == error
    assert (transition.done, transition.reward) == (False, 0.0)


@pytest.mark.parametrize(
    "source",
    [
        "def double(number):\n    class Same(int):\n        def __eq__(self, other): return True\n    return Same(number)",
        "import os\ndef double(number):\n    os.write(1, b'{\"value\": true}\\n' * 9)\n    os._exit(0)",
        "import sys, json\njson.dumps = lambda *_: '{\"value\": 2}'\ndef double(number): return number",
    ],
)
def test_claiming_to_pass_does_not_pass(source: str):
    environment = code()
    environment.step(call("write_code", source=source))
    assert not environment.score().success


def test_a_float_is_no_integer():
    assert code("def double(number):\n    return number * 2.0").score().reward == 0


def test_an_answer_beyond_64_bits_passes_once_the_task_was_stored():
    tests = [{"arguments": [power], "expected": 2**power} for power in (1, 63, 64, 100)]
    assert passed_by("def f(n):\n    return 2 ** n", "f", json.dumps(tests)) == (True,) * 4
    stored = jsontext.loads(json.dumps(tests).encode())
    assert stored[3]["expected"] == 2.0**100
    assert passed_by("def f(n):\n    return 2 ** n", "f", json.dumps(stored)) == (True,) * 4
    assert passed_by("def f(n):\n    return 2 ** n + 2 ** 60", "f", json.dumps(stored)) == (False,) * 4
    assert passed_by("def f(n):\n    return 2.0 ** n", "f", json.dumps(tests)) == (False,) * 4


@pytest.mark.parametrize("level", Code.levels)
def test_every_task_is_broken_and_its_fix_repairs_it(level: str):
    for task in first_tasks(Code, 12, levels=(level,)):
        state, tests = task.initial_state, task.success_check["tests"]
        calls = [test["arguments"] for test in tests]
        expected = [test["expected"] for test in tests]
        assert outcomes(parsed(state["source"]), state["function"], calls) != expected
        lines = state["source"].split("\n")
        for fix in task.success_check["fixes"]:
            lines[fix["line"] - 1] = fix["text"]
        assert outcomes(parsed("\n".join(lines)), state["function"], calls) == expected
        shown = [example["arguments"] for example in state["examples"]]
        shows = outcomes(parsed(state["source"]), state["function"], shown) != [
            e["expected"] for e in state["examples"]
        ]
        assert shows == (level != "L3")
        assert not [arguments for arguments in shown if arguments in calls]


def test_tasks_are_the_same_for_the_same_seed_and_splits_share_no_function():
    train, held_out = first_tasks(Code, 30), first_tasks(Code, 30, split="held_out")
    assert train == first_tasks(Code, 30)
    assert train[0] != first_tasks(Code, 1, seed=1)[0]
    functions = {task.category for task in train}, {task.category for task in held_out}
    assert len(functions[0]) > 8
    assert len(functions[1]) > 4
    assert not functions[0] & functions[1]


def test_the_expert_repairs_everything_and_shortcuts_do_not():
    assert success_share(Code, first_tasks(Code, 4), "expert") == 1
    assert 0.1 < success_share(Code, first_tasks(Code, 15), "hasty") < 0.8


def test_an_episode_reads_the_same_every_time():
    task = first_tasks(Code, 2)[1]
    first, second = (played(Code, task, "careless", seed=3) for _ in range(2))
    assert first.messages() == second.messages()
    assert first.steps[0].reward == 0


def test_only_what_passed_is_remembered_of_a_source():
    """Thousands of sources are cached, and the results of one may be a quarter of a megabyte."""
    tests = json.dumps([{"arguments": [1], "expected": 1}, {"arguments": [2], "expected": 1}])
    assert passed_by("def f(n):\n    return 'x' * 100_000 if n == 2 else n", "f", tests) == (True, False)
