"""Two steps side by side: messages that both received are folded away, and those that only one received aren't."""

from typing import Any

from apps.common.compiled_templates import render_macro
from apps.trajectories.models import Step
from apps.trajectories.rendering.differences import mark_pair
from apps.trajectories.rendering.steps import StepView, step_view
from tests.white_space import collapsed

PROMPT = "Mend the function that divides by zero.\n" * 20


def step_after(*messages: tuple[str, str]) -> StepView:
    context: Any = [{"role": role, "content": content} for role, content in messages]
    step = Step(index=0, kind="tool", context=context, message={"role": "assistant", "content": "I look."})
    return step_view(step, following=[], part_url="/parts/")


def folded(view: StepView) -> list[tuple[str, bool, bool]]:
    return [(message.role, message.is_folded, message.is_same) for message in view.context]


def test_a_long_prompt_that_both_were_given_is_folded_and_says_so() -> None:
    left, right = mark_pair(
        step_after(("system", "Be brief."), ("user", PROMPT)), step_after(("system", "Be kind."), ("user", PROMPT))
    )
    assert folded(left) == folded(right) == [("system", True, False), ("user", True, True)]
    page = collapsed(render_macro("trajectories/steps.jinja", "message", left.context[1]))
    assert "User, the same on both sides" in " ".join(page.split())


def test_what_differs_beyond_what_is_shown_stays_open() -> None:
    long = PROMPT * 50
    left, right = mark_pair(step_after(("user", long)), step_after(("user", long + "!")))
    assert folded(left) == folded(right) == [("user", False, False)]


def test_short_words_and_what_only_one_was_told_stay_open() -> None:
    left, right = mark_pair(step_after(("user", "Yes."), ("user", PROMPT)), step_after(("user", "Yes.")))
    assert folded(left) == [("user", False, True), ("user", False, False)]
    assert folded(right) == [("user", False, True)]


def test_white_space_is_marked_where_nothing_else_differs() -> None:
    def acting(command: str, **others: str) -> StepView:
        call = {"function": {"name": "bash", "arguments": {"command": command, **others}}}
        step = Step(
            index=0, kind="tool", context=[], message={"role": "assistant", "content": "", "tool_calls": [call]}
        )
        return step_view(step, following=[], part_url="/parts/")

    left, right = mark_pair(acting("cat a.txt  b.txt", sep="a b"), acting("cat a.txt b.txt", sep="a\tb"))
    assert "a.txt<mark>  </mark>b.txt" in left.calls[0].blocks[0].html
    assert right.calls[0].facts[0].marked == "a<mark>\t</mark>b"
    left, _ = mark_pair(acting("cat a.txt  b.txt", sep=""), acting("cat a.txt b.md", sep=""))
    assert "a.txt  b.<mark>txt</mark>" in left.calls[0].blocks[0].html
