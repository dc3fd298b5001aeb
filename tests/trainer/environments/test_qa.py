"""The smallest environment, with one question and one answer."""

from tests.trainer.environments.scripted_episodes import first_tasks, success_share
from trainer.environments.qa import Qa


def test_whatever_is_said_ends_it_and_only_the_right_answer_counts():
    for number, template in enumerate(("{}", " {}. ", "No idea", "")):
        task = first_tasks(Qa, 3)[2]
        environment = Qa()
        opening = environment.reset(task)
        assert opening[1]["content"] == task.instruction
        transition = environment.step({"role": "assistant", "content": template.format(task.success_check["answer"])})
        assert transition.done
        assert transition.observation == []
        assert transition.reward == environment.score().reward == (1.0 if number < 2 else 0.0)


def test_a_tool_call_is_no_answer_but_no_crash_either():
    environment = Qa()
    environment.reset(first_tasks(Qa, 1)[0])
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "look"}}]}
    assert environment.step(called).info == {"subgoals": {"answer": False}, "error": "there are no tools here"}


def test_scripts_differ_in_skill_and_splits_in_what_they_ask():
    tasks = first_tasks(Qa, 200)
    assert success_share(Qa, tasks, "expert") == 1
    assert 0.3 < success_share(Qa, tasks, "hasty") < 0.5
    chats = [
        {(task.difficulty, task.category) for task in first_tasks(Qa, 300, split=split)}
        for split in ("train", "held_out")
    ]
    assert chats[0]
    assert chats[1]
    assert not chats[0] & chats[1]
