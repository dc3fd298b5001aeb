"""A step in one line: what it does, what came back, whether it failed."""

import pytest

from apps.trajectories.outlines import clip, failure_of, one_line, outline, visible
from contract.trajectory import Step, Task, Trajectory


def step_of(content: object = None, **more: object) -> Step:
    return Step(context=[], message={"role": "assistant", "content": content, **more})


def called(name: str, arguments: object, *results: str, **more: object) -> Trajectory:
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    return run(step_of(None, tool_calls=[call], **more), closing=[{"role": "tool", "content": r} for r in results])


def run(*steps: Step, closing: list | None = None) -> Trajectory:
    return Trajectory(task=Task(key="t"), steps=list(steps), closing=closing or [])


def test_a_trajectory_without_steps_has_no_outline():
    assert outline(run()) == []


@pytest.mark.parametrize(
    ("arguments", "headline"),
    [
        ('{"command": "ls -la\\nrm x", "timeout": 5}', "ls -la"),
        ({"path": "/etc/hosts", "line": 3}, "/etc/hosts"),
        ({"user_id": "mia"}, "mia"),
        ({"origin": "JFK", "seats": 2}, "origin=JFK, seats=2"),
        ({"ids": [1, 2]}, "[1,2]"),
        ("{}", ""),
        ("not json at all", "not json at all"),
        ('"just text"', '"just text"'),
        (None, "null"),
        ({"command": "x" * 500}, "x" * 199 + "…"),
    ],
)
def test_the_headline_of_a_call_is_its_telling_argument(arguments, headline):
    (line,) = outline(called("bash", arguments))
    assert (line.kind, line.tool, line.headline) == ("tool", "bash", headline)


def test_parallel_calls_are_named_once_each_and_counted():
    calls = [{"id": str(n), "function": {"name": name, "arguments": '{"q": "x"}'}} for n, name in enumerate("aba")]
    (line,) = outline(run(step_of(None, tool_calls=calls)))
    assert line.tool == "a, b"
    assert line.headline == "x  (+2 more)"


def test_the_result_is_the_first_line_that_comes_back():
    (line,) = outline(called("bash", "{}", "<returncode>0</returncode>\n<output>\n\x1b[31mREADME.md\x1b[0m\nx"))
    assert line.result == "README.md"
    assert line.is_error is False
    assert line.result_chars == len("<returncode>0</returncode>\n<output>\n\x1b[31mREADME.md\x1b[0m\nx")


@pytest.mark.parametrize(
    "result",
    [
        "Error: no such flight",
        "error executing tool",
        "Traceback (most recent call last):\n  File",
        "ValueError: x",
        "requests.exceptions.HTTPError: 404",
        '{"error": "denied"}',
        '{"status": "error", "why": 1}',
        "<returncode>2</returncode>\n<output>",
        "Exit code: 1\n",
        "[exit code 127]",
        "exitcode: 1 (execution failed)",
        "/bin/bash: foo: command not found",
        "bash: line 1: cd: x: No such file or directory",
        "EXECUTION TIMED OUT because",
        "Your proposed edit has introduced new syntax error(s).",
        "Invalid section_id format. Expected: page_id:section_name",
    ],
)
def test_results_that_say_the_call_failed(result):
    assert failure_of([{"role": "tool", "content": result}])
    (line,) = outline(called("t", "{}", result))
    assert line.is_error is True


@pytest.mark.parametrize(
    "result",
    [
        "",
        "No errors found.",
        "errors.py\nmain.py",
        "The error rate is 5 %",
        "Errors: 0",
        '{"error": null, "rows": 3}',
        '{"error": ""}',
        "<returncode>0</returncode>\n<output>\nerror: in a log",
        "exit code: 0",
        "exitcode: 0 (execution succeeded)\nCode output: 1",
        "class ValueErrorCatcher:",
    ],
)
def test_results_that_only_mention_errors(result):
    assert failure_of([{"role": "tool", "content": result}]) == ""


def test_what_a_person_says_is_no_failed_call():
    assert failure_of([{"role": "user", "content": "Error: that is wrong"}]) == ""


def test_an_agent_that_acts_in_text_hears_of_failures_in_user_messages():
    step = step_of("I look.\n```\nopen x.py\n```")
    step.info["action"] = "open x.py\n"
    (line,) = outline(run(step, closing=[{"role": "user", "content": "Error: no such file"}]))
    assert (line.kind, line.tool, line.headline, line.is_error) == ("tool", "open", "x.py", True)


def test_the_error_of_a_step_comes_before_what_its_result_says():
    step = step_of("x")
    step.error = "the sandbox died"
    (line,) = outline(run(step))
    assert (line.is_error, line.result) == (True, "the sandbox died")


@pytest.mark.parametrize(
    ("step", "closing", "kind", "headline"),
    [
        (step_of("The answer is 4."), [], "final", "The answer is 4."),
        (step_of("Which city?"), [{"role": "user", "content": "Rome"}], "message", "Which city?"),
        (step_of("", reasoning_content="Let me think"), [], "reasoning", "Let me think"),
        (step_of("<think>\nhm\n</think>\n\nFour."), [], "final", "Four."),
        (step_of("<think>only thoughts"), [], "final", "<think>only thoughts"),
        (step_of([{"type": "text", "text": "a"}, {"type": "image_url"}]), [], "final", "a"),
        (step_of(None), [], "final", ""),
    ],
)
def test_the_kind_of_a_step(step, closing, kind, headline):
    (line,) = outline(run(step, closing=closing))
    assert (line.kind, line.headline) == (kind, headline)


def test_characters_are_counted_before_and_after_each_step():
    first, second = step_of("a"), step_of("b")
    first.context = [{"role": "user", "content": "12345"}]
    second.context = [{"role": "user", "content": "123"}, {"role": "user", "content": [{"type": "text", "text": "45"}]}]
    lines = outline(run(first, second, closing=[{"role": "user", "content": "1"}]))
    assert [(line.context_chars, line.result_chars) for line in lines] == [(5, 5), (5, 1)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\x00b", "a␀b"), ("a\ud800b", "a\\ud800b"), ("é🙂", "é🙂"), ("a\tb\x07", "a b "), ("x" * 20, "x" * 9 + "…")],
)
def test_text_for_columns_is_fit_to_store_and_to_read(text, shown):
    assert clip(text, 10) == shown
    assert len(clip(text * 99, 10)) <= 10
    clip(text, 10).encode()
    visible(text).encode()


def test_hostile_one_line_text_is_cut_before_it_is_worked_on():
    assert len(one_line("\x1b[" * 5_000_000 + "x")) <= 200
    assert len(one_line("<a>" * 5_000_000)) <= 200
