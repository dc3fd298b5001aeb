"""Step-by-step solutions: each step is a turn with its labels."""

import pytest

from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.rows import read, refusal


def described(record):
    return [(step.message["content"], step.info) for step in record.steps]


def test_an_index_of_the_first_wrong_step_stays_with_the_run():
    record = read("labeled-steps", EXAMPLES["labeled-steps"])
    assert described(record) == [("1 + 1 is 2.", {}), ("2 + 1 is 4.", {})]
    assert record.steps[0].context == [{"role": "user", "content": "What is 1 + 1 + 1?"}]
    assert (record.policy, record.success, record.info) == ("m", False, {"label": 1})


def test_lists_as_long_as_the_steps_say_something_of_each():
    row = {"question": "q", "steps": ["a", "b"], "labels": [True, False], "ratings": [2, 1], "tags": ["x", "y"]}
    record = read("labeled-steps", row)
    assert described(record) == [("a", {"label": True, "rating": 2}), ("b", {"label": False, "rating": 1})]
    assert (record.tags, record.info) == (["x", "y"], {})


def completion(text, rating):
    return {"text": text, "rating": rating, "flagged": None}


def test_prm800k_goes_the_way_that_was_chosen_and_keeps_the_others_with_it():
    row = {
        "labeler": "ann",
        "question": {"problem": "q", "ground_truth_answer": "7"},
        "label": {
            "finish_reason": "found_error",
            "steps": [
                {"completions": [completion("a", 1)], "chosen_completion": 0, "human_completion": None},
                {"completions": [completion("b", -1), completion("c", 0)], "chosen_completion": 1},
                {
                    "completions": [completion("d", -1)],
                    "chosen_completion": None,
                    "human_completion": {"text": "by hand"},
                },
                {"completions": [completion("e", -1)], "chosen_completion": None, "human_completion": None},
            ],
        },
    }
    record = read("labeled-steps", row)
    assert described(record) == [
        ("a", {"rating": 1}),
        ("c", {"rating": 0, "others": [completion("b", -1)]}),
        ("e", {"rating": -1}),
    ]
    # Text written by a person isn't the policy's.
    assert record.steps[2].context == [{"role": "assistant", "content": "by hand", "weight": 0}]
    assert (record.termination, record.task.success_check) == ("found_error", {"answer": "7"})
    assert record.info["labeler"] == "ann"
    assert record.info["replaced"] == [completion("d", -1)]


def test_math_shepherds_labels_stand_where_its_marks_do():
    row = {
        "input": "Ann has 3 + 4 ducks. Step 1: 3 + 4 = 7 ки\nStep 2: The answer is: 8 ки",
        "label": "Ann has 3 + 4 ducks. Step 1: 3 + 4 = 7 +\nStep 2: The answer is: 8 -",
        "task": "GSM8K",
    }
    record = read("labeled-steps", row)
    assert record.task.instruction == "Ann has 3 + 4 ducks."
    assert described(record) == [("Step 1: 3 + 4 = 7", {"label": "+"}), ("Step 2: The answer is: 8", {"label": "-"})]
    assert record.info == {"task": "GSM8K"}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"input": "Step 1: a ки", "label": "Step 1: a +"}, "There is no problem before “Step 1:”."),
        ({"input": "q Step 1: a ки b", "label": "q Step 1: a + c"}, "`label` is not `input` with a label"),
        ({"problem": "q", "steps": []}, "There is no problem, or it has no steps."),
        ({"question": {"problem": "q"}, "label": {"steps": []}}, "The problem has no steps."),
    ],
)
def test_what_is_missing_is_said(row, reason):
    assert reason in refusal("labeled-steps", row)[0]
