"""Pairs of answers are two trajectories of one task; preferences are kept but never guessed."""

import json

import pytest

from apps.ingest import formats
from apps.ingest.records import BadParts
from apps.ingest.upload import recognize
from tests.ingest.formats.rows import refusal

ASK, YES, NO = (
    {"role": role, "content": content} for role, content in (("user", "q"), ("assistant", "y"), ("assistant", "n"))
)


def both(row):
    return list(recognize([row]).read(row, "pairs.jsonl"))


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "q", "chosen": "y", "rejected": "n"},
        {"prompt": [ASK], "chosen": [YES], "rejected": [NO], "source": "x"},
        {"prompt": "q", "chosen": [ASK, YES], "rejected": [ASK, NO]},
        {"chosen_messages": [ASK, YES], "rejected_messages": [ASK, NO]},
        {"chosen": "\n\nHuman: q\n\nAssistant: y", "rejected": "\n\nHuman: q\n\nAssistant: n"},
        {
            "conversations": [{"from": "human", "value": "q"}],
            "chosen": {"from": "gpt", "value": "y"},
            "rejected": {"from": "gpt", "value": "n"},
        },
        {"conversation_a": [ASK, YES], "conversation_b": [ASK, NO], "winner": "model_a"},
        {"instruction": "q", "input": "", "response1": "y", "response2": "n", "annotator1": 1},
        {"messages": [ASK], "output_1": "y", "output_2": "n"},
        {"messages": json.dumps([ASK]), "chosen": json.dumps(YES), "rejected": json.dumps(NO)},
        {"prompt": "\n\nHuman: q\n\nAssistant:", "chosen": "y", "rejected": "n"},
        {"prompt": '["q"]', "response_a": '["y"]', "response_b": '["n"]', "winner_tie": "1"},
        {"question": {"id": "e", "full_text": "q"}, "answer_0": "y", "score_0": 0.5, "answer_1": "n", "score_1": -0.5},
        {"info": {"post": "q"}, "summaries": [{"text": "y"}, {"text": "n"}], "choice": 0},
        {"prompt": "q", "chosen": "y", "rejected": "n", "score": 4.5, "success": True, "rewards": [1]},
    ],
)
def test_each_side_is_a_run_of_the_same_task(row):
    first, second = both(row)
    assert [[message["content"] for message in run.messages()] for run in (first, second)] == [["q", "y"], ["q", "n"]]
    assert first.task == second.task
    assert (first.success, first.reward, second.success, second.reward) == (None,) * 4


def test_what_others_said_stays_with_both_runs_and_the_other_answer_with_neither():
    row = {
        "idx": 7,
        "instruction": "q",
        "input": "r",
        "response1": "y",
        "response2": "n",
        "annotator1": 2,
        "tags": ["t"],
    }
    first, second = both(row)
    assert first.task.instruction == "q\n\nr"
    assert (first.id, second.id) == ("7/1", "7/2")
    compared = [run.info.pop("compared") for run in (first, second)]
    assert [entry["side"] for entry in compared] == ["1", "2"]
    assert compared[0]["pair"] == compared[1]["pair"]
    assert first.info == second.info == {"idx": 7, "annotator1": 2}
    assert first.tags == second.tags == ["t"]


def test_a_score_of_the_pair_is_kept_with_both_runs():
    first, second = both({"prompt": "q", "chosen": "y", "rejected": "n", "score": 4.5})
    assert (first.info["score"], second.info["score"]) == (4.5, 4.5)


def test_chosen_and_rejected_are_tags():
    first, second = both({"id": "p", "prompt": "q", "chosen": "y", "rejected": "n", "tags": ["t"]})
    assert (first.tags, second.tags) == (["t", "chosen"], ["t", "rejected"])


def test_a_side_has_the_policy_that_made_it():
    row = {"prompt": "q", "response_a": "y", "response_b": "n", "model_a": "small", "model_b": "large"}
    assert [run.policy for run in both(row)] == ["small", "large"]


def test_who_answers_nothing_has_answered():
    _, second = both({"prompt": "q", "chosen": "y", "rejected": ""})
    assert second.steps[0].message["content"] == ""


def test_a_side_that_is_no_answer_keeps_the_other_from_nothing():
    row, records = {"prompt": "q", "chosen": "y", "rejected": False}, []
    with pytest.raises(BadParts, match="`rejected`: It is true or false, not an answer"):
        records.extend(formats.named("judged-pairs").read(row, "pairs.jsonl"))
    assert "There is no prompt." in refusal("judged-pairs", {"chosen": "y", "rejected": "n"})[0]


def test_more_answers_than_two_are_no_pair():
    with pytest.raises(formats.UnknownFormat):
        both({"question": "q", "answer_a": "1", "answer_b": "2", "answer_c": "3"})


def test_a_call_that_an_answer_writes_as_json_is_its_text():
    text = '{"type": "function", "name": "f", "parameters": {}}'
    first, _ = both({"prompt": "q", "chosen": text, "rejected": "n"})
    assert first.steps[0].message == {"role": "assistant", "content": text}


def test_several_turns_in_lists_are_one_chat_each():
    row = {"prompt": ["q", "r"], "response_a": ["y", None], "response_b": ["n", "m"]}
    first, second = both(row)
    assert [message["content"] for message in first.messages()] == ["q", "y", "r", ""]
    assert [message["content"] for message in second.messages()] == ["q", "n", "r", "m"]


def test_each_of_several_good_answers_is_compared_with_each_of_several_bad_ones():
    runs = both({"id": "1", "prompt": "q", "chosen": ["y"], "rejected": ["n", "m"]})
    pairs = {}
    for run in runs:
        pairs.setdefault(run.info["compared"]["pair"], {})[run.info["compared"]["side"]] = run.steps[0].message[
            "content"
        ]
    assert list(pairs.values()) == [{"chosen": "y", "rejected": "n"}, {"chosen": "y", "rejected": "m"}]


@pytest.mark.parametrize(
    ("models", "names"),
    [
        ({"chosen-model": "m", "rejected-model": "n"}, ("chosen", "rejected")),
        ({"generator_1": "m", "generator_2": "n"}, ("output_1", "output_2")),
        ({"response_0_source": "m", "response_1_source": "n"}, ("response_0", "response_1")),
    ],
)
def test_each_side_is_its_own_models(models, names):
    first, second = both({"prompt": "q", names[0]: "y", names[1]: "n", **models})
    assert (first.policy, second.policy) == ("m", "n")
    assert not models.keys() & (first.info.keys() | second.info.keys())


def test_earlier_turns_in_the_prompt_are_context_of_both_answers():
    earlier = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "q"},
    ]
    row = {"prompt": earlier, "response_a": "good", "response_b": "bad"}
    records = list(formats.named("judged-pairs").read(row, "f"))
    assert [[step.message["content"] for step in record.steps] for record in records] == [["good"], ["bad"]]
    assert [record.steps[0].context for record in records] == [earlier, earlier]
