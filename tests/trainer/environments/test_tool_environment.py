"""The custom environment that the documentation shows."""

import re
from typing import Any

from contract.trajectory import Task
from tests.trainer.environments.scripted_episodes import call
from tests.trainer.runs import ROOT

TASK = Task("t", "Take Emma.", initial_state={"books": ["Emma", "Ulysses"]}, success_check={"title": "Emma"})


def library() -> Any:
    (example,) = re.findall(
        r"```python\n(.*?class Library.*?)```", (ROOT / "docs" / "environments.md").read_text(), re.DOTALL
    )
    scope: dict[str, Any] = {}
    exec(example, scope)
    return scope["Library"]()


def test_the_example_of_the_documentation_can_be_played():
    environment = library()
    assert environment.reset(TASK) == [{"role": "user", "content": "Take Emma."}]
    assert [tool["function"]["name"] for tool in environment.tools] == ["list_books", "take"]
    assert environment.step(call("list_books")).observation[0]["content"] == '["Emma", "Ulysses"]'
    assert environment.step(call("take", title="Moby Dick")).info["error"] == "there is no book 'Moby Dick'"
    taken = environment.step(call("take", title="Emma"))
    assert (taken.reward, taken.done, taken.info) == (1.0, False, {"subgoals": {"take the book": True}})
    assert environment.step({"role": "assistant", "content": "Done."}).done
    assert environment.score().success
