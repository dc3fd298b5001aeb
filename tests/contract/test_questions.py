"""Questions as JSON: reading valid ones, and refusing invalid ones."""

import json
import time

import pytest

from contract.questions import Allowed, BadQuestions, Condition, Question, asked, read

PAIR, RUN = Allowed(comparisons=True, steps=False), Allowed(comparisons=False, steps=True)
EVERY = """[
  {"name": "Was it polite?", "type": "scale", "points": 3, "low": "no", "high": "yes"},
  {"key": "cause", "name": "What went wrong?", "type": "choices", "options": ["a tool", "the plan"], "required": false},
  {"name": "Which tool?", "type": "text", "when": {"question": "cause", "any_of": ["a tool"]}},
  {"name": "How sure?", "type": "choice", "options": ["not", "quite"], "per": "step"}
]"""
POLITE, CAUSE, TOOL, SURE = (
    Question("was-it-polite", "Was it polite?", 3, "no", "yes"),
    Question("cause", "What went wrong?", type="choices", options=("a tool", "the plan"), required=False),
    Question("which-tool", "Which tool?", type="text", when=Condition("cause", ("a tool",))),
    Question("how-sure", "How sure?", type="choice", options=("not", "quite"), per="step"),
)


def test_every_type_is_read_and_written_back():
    questions = read(EVERY, RUN)
    assert questions == (POLITE, CAUSE, TOOL, SURE)
    assert read(json.dumps([question.to_json() for question in questions]), RUN) == questions
    assert tuple(Question.from_json(question.to_json()) for question in questions) == questions
    assert read("", RUN) == read("[]", RUN) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Safety: 3", "Line 1, column 1: expecting value, in “Safety: 3”. Expected a list of questions"),
        ('[\n  {"name": "a"}\n  {"name": "b"}]', "Line 3, column 3: expecting ',' delimiter, in “"[:30]),
        ('{"name": "a"}', "Line 1: got an object; expected a list of questions"),
        ('[\n\n"Safety: 3"]', "Line 3, question 1: got a string; expected an object"),
        ('[{"name": "a"},\n{"name": "b", "points": 12}]', "Line 2, question 2 (“b”): `points` is `12`; expected a whole number"),
        ('[{"name": "a", "pionts": 3}]', "`pionts` is no field of a question; expected only key, name, points"),
        ('[{"name": "a", "type": "stars"}]', "`type` is `\"stars\"`; expected one of comparison, scale, choice, choices, text"),
        ('[{"name": "a", "type": "text", "points": 3}]', "`points` is given; expected none: a question of type text has no points"),
        ('[{"name": "a", "type": "choice", "options": ["x"]}]', "`options` is 1 options; expected a list of 2 to 10 texts"),
        ('[{"name": "a", "type": "choice", "options": ["x", " x"]}]', "`options` is a list with “x” twice"),
        ('[{"name": "a"}, {"name": "A"}]', "question 2 (“A”): `key` is “a”, like that of “a”"),
        ('[{"name": "?"}]', "`name` is `\"?\"`; expected a letter or a digit in it, or a `key`"),
        ('[{"name": "a", "required": "no"}]', "`required` is `\"no\"`; expected true or false"),
        ('[{"name": "a", "when": {"question": "b", "any_of": [1]}}]', "an earlier scale, choice or choices: there is none"),
        ('[{"name": "a"}, {"name": "b", "when": {"question": "a", "any_of": [6]}}]', "a list with `6`; expected answers of “a”"),
        ('[{"name": "a", "type": "comparison"}]', "comparison, which needs two sides; expected scale, choice, choices or text"),
    ],
)  # fmt: skip
def test_what_is_no_question_is_refused_by_its_place(text, words):
    with pytest.raises(BadQuestions) as refused:
        read(text, RUN)
    assert words in str(refused.value)


def test_the_trajectories_of_a_pair_share_no_steps():
    with pytest.raises(BadQuestions, match="`per` is step; expected item"):
        read([{"name": "a", "per": "step"}], PAIR)
    assert read([{"name": "Safety", "type": "comparison", "points": 3}], PAIR)[0].values == range(1, -2, -1)


@pytest.mark.parametrize(
    ("answers", "keys"),
    [({}, ["a", "c"]), ({"a": 1}, ["a", "b", "c"]), ({"a": 2, "b": ["x"]}, ["a", "c"]), ({"a": 1, "b": ["x"]}, ["a", "b", "d", "c"])],
)  # fmt: skip
def test_a_question_is_asked_while_the_one_it_depends_on_is_asked_and_answered_so(answers, keys):
    b = Question("b", "B", type="choices", options=("x", "y"), when=Condition("a", (1,)))
    d = Question("d", "D", type="text", when=Condition("b", ("x",)))
    assert [question.key for question in asked((Question("a", "A"), b, d, Question("c", "C")), answers)] == keys


@pytest.mark.parametrize(
    ("question", "fits", "misfits"),
    [
        (POLITE, 3, [0, 4, "3", True, None]),
        (CAUSE, ["a tool", "the plan"], [[], ["the plan", "a tool"], ["luck"], "a tool"]),
        (SURE, "not", ["", "maybe", ["not"]]),
        (TOOL, "the search", ["", 3, "x" * 5001]),
    ],
)
def test_an_answer_is_one_of_those_that_are_offered(question, fits, misfits):
    assert question.takes(fits)
    assert [misfit for misfit in misfits if question.takes(misfit)] == []


def test_a_list_of_very_many_is_refused_as_fast_as_it_is_read():
    before = time.process_time()
    with pytest.raises(BadQuestions, match="Got 50001 questions"):
        read("[" + "1," * 50_000 + "1]", RUN)
    assert time.process_time() - before < 1
