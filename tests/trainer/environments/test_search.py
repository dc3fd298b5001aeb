"""Questions about an encyclopedia: searched with a real index, judged by the answer alone, and not answerable from memory."""

import json
from typing import Any

import pytest

from contract.messages import Message
from tests.trainer.environments.scripted_episodes import call, first_tasks, played, success_share
from trainer.environments.search import Search, same_answer
from trainer.environments.search.bm25 import Index
from trainer.environments.search.corpus import corpus_named

QUESTION = first_tasks(Search, 3)[2]


def search() -> Search:
    environment = Search()
    environment.reset(QUESTION)
    return environment


def answer(environment: Search, tool: str, **arguments: object) -> Any:
    (message,) = environment.step(call(tool, **arguments)).observation
    return json.loads(message["content"])


def test_rare_words_count_more_and_long_documents_less():
    index = Index(["the red lamp", "the red boat and the long journey of the red boat", "the lamp", "the tree"])
    assert index.best("tree", 9) == [3]
    assert index.best("red lamp", 9) == [0, 2, 1]  # lamp occurs in two short documents, red in a short and a long one
    assert index.best("THE boat!", 1) == [1]
    assert index.best("nothing", 9) == []


def test_a_known_value_of_the_formula():
    # In one of two documents, the word occurs once, at mean length: ln(1 + (2 - 1 + 0.5) / 1.5) * 2.2 / 2.2 = ln 2
    index = Index(["alpha beta", "gamma delta"])
    assert index._weights["alpha"] == [(0, pytest.approx(0.6931472))]


def test_pages_are_found_read_and_answered_from():
    environment = search()
    start, pages = QUESTION.success_check["start"], QUESTION.success_check["pages"]
    hits = answer(environment, "search", query=start)
    assert hits[0] == {"title": start, "page": pages[0]}
    assert len(hits) == 4
    assert start in answer(environment, "lookup", page=pages[0])["text"]
    assert environment.score().subgoals == {f"read {page}": page == pages[0] for page in pages} | {"answer": False}
    last = environment.step(call("finish", answer=f"The {QUESTION.success_check['answer'].upper()}."))
    assert (last.reward, last.done, environment.score().success) == (1.0, True, True)


@pytest.mark.parametrize("last", [call("finish", answer="Nowhere"), {"role": "assistant", "content": "I know it."}])
def test_a_wrong_answer_and_none_are_worth_nothing(last: Message):
    environment = search()
    assert environment.step(last).done
    assert environment.score()[:2] == (0.0, False)


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (call("search", query="zzz"), "no page holds a word of 'zzz'"),
        (call("lookup", page="p1"), "there is no page 'p1'"),
        (call("finish"), "missing argument answer"),
    ],
)
def test_a_failed_call_is_an_observation(action: Message, error: str):
    transition = search().step(action)
    assert (transition.info["error"], transition.done) == (error, False)


def test_answers_are_compared_without_case_articles_and_punctuation():
    assert same_answer("the  Salt coast!", "The Salt Coast")
    assert not same_answer("Salt", "The Salt Coast")


def test_each_level_is_one_page_further_and_the_expert_walks_it():
    for hops, level in enumerate(Search.levels, start=1):
        tasks = first_tasks(Search, 15, levels=(level,))
        assert {len(task.success_check["pages"]) for task in tasks} == {hops}
        runs = [played(Search, task, "expert") for task in tasks]
        assert all(run.outcome.success for run in runs)
        assert {len(run.steps) for run in runs} == {2 * hops + 1}


def test_shortcuts_miss():
    shares = [success_share(Search, first_tasks(Search, 60), script) for script in ("hasty", "careless")]
    assert 0.3 < shares[0] < 0.7 < shares[1] < 1


def test_held_out_countries_share_no_name_with_others():
    train = [corpus_named(f"train/0/{number}").by_title for number in range(3)]
    held_out = corpus_named("held_out/0/0").by_title
    assert not held_out.keys() & set().union(*train)
    assert train[0].keys() != train[1].keys()
    assert {task.initial_state["corpus"] for task in first_tasks(Search, 70)} == {"train/0/0", "train/0/1"}


def test_tasks_are_the_same_for_the_same_seed():
    assert first_tasks(Search, 9) == first_tasks(Search, 9)
    assert first_tasks(Search, 9) != first_tasks(Search, 9, seed=1)
