"""Process labels in TRL's stepwise format."""

import pytest

from contract.rows.stepwise import stepwise

CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": {"at": "shelf"}}}
MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Find the lamp."},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "Empty."},
    {"role": "assistant", "content": "There is none."},
]


def test_a_prompt_a_completion_for_each_step_and_its_label():
    assert stepwise({"messages": MESSAGES, "step_labels": [1.0, -0.5]}) == {
        "prompt": "Be kind.\n\nFind the lamp.",
        "completions": [
            'I look.\n{"name": "look", "arguments": {"at": "shelf"}}',
            "Empty.\n\nThere is none.",
        ],
        "labels": [True, False],
    }


@pytest.mark.parametrize(
    ("labels", "first_error", "expected"),
    [
        ([0, 1], None, [True, True]),  # neutral counts as right
        ([1, None], None, [True]),
        ([None, 1], None, None),
        ([None, None], 1, [True, False]),
        ([None, None], -1, [True, True]),
        ([None, None], 0, [False]),
    ],
)
def test_a_row_ends_before_the_first_step_that_nothing_is_known_of(labels, first_error, expected):
    row = stepwise({"messages": MESSAGES, "step_labels": labels, "first_error": first_error})
    assert (row and row["labels"]) == expected
    assert row is None or len(row["completions"]) == len(row["labels"])


def test_an_answer_that_the_policy_did_not_write_is_no_step():
    shown = [{"role": "user", "content": "Find the key."}, {"role": "assistant", "weight": 0, "content": "It's here."}]
    row = stepwise({"messages": [*shown, *MESSAGES[1:]], "step_labels": [1.0, -0.5]})
    assert row is not None
    assert row["prompt"] == "Find the key.\n\nIt's here.\n\nFind the lamp."
    assert (len(row["completions"]), row["labels"]) == (2, [True, False])
