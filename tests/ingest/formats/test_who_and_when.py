"""Who&When: a team is one policy, and the mistake that a person found stays with its step."""

from copy import deepcopy

from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.rows import read

ROW = EXAMPLES["who-and-when"]


def test_people_and_terminals_are_context_and_speakers_keep_their_names():
    record = read("who-and-when", ROW)
    assert [step.message["name"] for step in record.steps] == ["Orchestrator", "Coder", "Orchestrator"]
    assert [[heard["role"] for heard in step.context] for step in record.steps] == [["user"], [], ["tool"]]
    assert [step.info.get("speaker") for step in record.steps] == [
        "Orchestrator (-> Coder)",
        "Coder",
        "Orchestrator (thought)",
    ]


def test_the_mistake_is_counted_in_steps():
    record = read("who-and-when", ROW)
    assert (record.info["first_error"], record.info["mistake_agent"]) == (2, "Orchestrator")
    assert record.steps[2].info["mistake"] == "It misread the number."
    assert (record.success, record.task.key, record.task.success_check) == (False, "q1", {"answer": "3"})


def test_groups_that_name_their_speakers():
    row = deepcopy(ROW)
    row["history"] = [
        {"role": "assistant", "name": "Coder", "content": "You are given a task."},
        {"role": "user", "name": "Coder", "content": "I count."},
        {"role": "user", "name": "Computer_terminal", "content": "exitcode: 0"},
    ]
    row |= {"mistake_step": "1", "is_correct": False}
    record = read("who-and-when", row)
    (step,) = record.steps
    assert step.context == [{"role": "user", "content": "You are given a task."}]
    assert (step.message["name"], record.info["first_error"]) == ("Coder", 0)
    assert record.closing == [{"role": "tool", "name": "Computer_terminal", "content": "exitcode: 0"}]


def test_a_mistake_in_what_nobody_said_has_no_step():
    assert read("who-and-when", {**ROW, "mistake_step": "0"}).info["first_error"] is None


def test_every_mistake_of_the_real_runs_has_its_step(real_data, real_file):
    folder = real_data("who-and-when")
    paths = [str(path.relative_to(folder.parent)) for path in sorted(folder.glob("*/*.json"))]
    runs = [record for path in paths for record in real_file(path).records]
    assert len(runs) == 184
    assert all(run.success is False for run in runs)
    placed = [run for run in runs if run.info["first_error"] is not None]
    assert len(placed) == 163  # the others blame the message that started the team
    assert all("mistake" in run.steps[run.info["first_error"]].info for run in placed)


def test_an_entry_with_a_name_alone_is_read():
    history = [ROW["history"][0], {"name": "Coder", "content": "ls"}]
    assert read("who-and-when", {**ROW, "history": history}).steps[0].info == {}
