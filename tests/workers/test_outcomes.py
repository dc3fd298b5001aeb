"""Ways for a run to end are distinguished, each with advice."""

import pytest

from contract.events import Failed, Finished, RunCancelled
from workers.bridge.outcomes import ChildEnd, Outcome, oom_kills, outcome_of


def test_a_finished_child_hands_over_its_report():
    assert outcome_of(ChildEnd(0, Finished({"eval/loss": 0.4}))) == Outcome("finished", report={"eval/loss": 0.4})


def test_a_child_that_stopped_when_asked_is_cancelled():
    assert outcome_of(ChildEnd(5, RunCancelled("checkpoints/4"))).kind == "cancelled"


def test_a_run_that_paused_itself_says_why():
    end = ChildEnd(status=5, last_event=RunCancelled("checkpoints/checkpoint-4", "Paused by an alarm at step 3."))
    assert outcome_of(end) == Outcome("cancelled", message="Paused by an alarm at step 3.")


def test_a_child_that_had_to_be_killed_after_being_asked_is_cancelled_too():
    assert outcome_of(ChildEnd(-9, None, kill_reason="stop_timeout")).kind == "cancelled"


def test_a_child_that_died_of_our_own_request_is_cancelled():
    assert outcome_of(ChildEnd(-15, None, stop_requested=True)).kind == "cancelled"
    assert outcome_of(ChildEnd(-11, None, stop_requested=True)).category == "crash"


def test_a_child_without_a_sign_of_life_counts_as_a_lost_worker():
    assert outcome_of(ChildEnd(-9, None, kill_reason="silence_timeout")).kind == "lost"


@pytest.mark.parametrize(
    ("end", "category", "words"),
    [
        (ChildEnd(-9, None, oom_kills=1), "out_of_memory", "The kernel killed the training process"),
        (ChildEnd(-9, None), "killed", "killed from outside (SIGKILL)"),
    ],
)
def test_a_child_that_is_killed_alone_is_lost_and_may_be_tried_again(end: ChildEnd, category: str, words: str):
    outcome = outcome_of(end)
    assert (outcome.kind, outcome.category) == ("lost", category)
    assert words in outcome.message
    assert "lower the batch size" in outcome.advice or "Halve the batch size" in outcome.advice


@pytest.mark.parametrize("category", ["data", "config", "out_of_memory", "crash"])
def test_what_the_trainer_says_is_believed(category: str):
    outcome = outcome_of(ChildEnd(1, Failed(category, "What happened.", "What to do.", "Where.")))
    assert (outcome.category, outcome.message, outcome.details) == (category, "What happened.", "Where.")


@pytest.mark.parametrize(
    ("end", "category", "words"),
    [
        (ChildEnd(-15, None), "killed", "killed from outside (SIGTERM)"),
        (ChildEnd(-11, None), "crash", "crashed (SIGSEGV): Segmentation fault"),
        (ChildEnd(-6, None, ["terminate called after throwing 'std::bad_alloc'"]), "out_of_memory", "died (SIGABRT)"),
        (ChildEnd(1, None, ["Traceback", "MemoryError", ""]), "out_of_memory", "MemoryError"),
        (ChildEnd(1, None, ["OSError: [Errno 28] No space left on device"]), "disk_full", "[Errno 28]"),
        (ChildEnd(1, None, ["Traceback"], disk_is_full=True), "disk_full", "Traceback"),
        (ChildEnd(1, Failed("crash", "OSError: [Errno 28] No space left on device")), "disk_full", "disk"),
        (ChildEnd(1, Failed("crash", "RuntimeError: std::bad_alloc")), "out_of_memory", "bad_alloc"),
        (ChildEnd(1, None, ["ModuleNotFoundError: No module named 'trl'"]), "crash", "No module named 'trl'"),
        (ChildEnd(2, None, ["There is no file run.json."]), "config", "There is no file run.json."),
        (ChildEnd(3, None, []), "data", "it printed nothing"),
        (ChildEnd(0, None, []), "crash", "status 0 without saying why"),
    ],
)
def test_the_end_is_named_and_comes_with_advice(end: ChildEnd, category: str, words: str):
    outcome = outcome_of(end)
    assert (outcome.kind, outcome.category) == ("failed", category)
    assert words in outcome.message
    assert outcome.advice


def test_the_kernels_count_of_killed_processes_only_rises():
    before = oom_kills()
    assert 0 <= before <= oom_kills()
