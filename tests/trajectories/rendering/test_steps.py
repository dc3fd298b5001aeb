"""A complete step becomes safe and legible markup, and every part of it can be requested."""

import json
import re
from typing import Any

import pytest

from apps.common.compiled_templates import render_macro
from apps.trajectories.models import Step, Task
from apps.trajectories.rendering.heads import head_of
from apps.trajectories.rendering.rules import broken_rules
from apps.trajectories.rendering.step_parts import part_of
from apps.trajectories.rendering.steps import step_view
from tests.trajectories.hostile import HOSTILE
from tests.white_space import collapsed


def step(index: int = 1, **fields: Any) -> Step:
    return Step(
        **{"index": index, "kind": "tool", "context": [], "message": {"role": "assistant", "content": ""}, **fields}
    )


def test_results_stand_with_the_calls_that_caused_them() -> None:
    calls = [{"id": i, "type": "function", "function": {"name": "get", "arguments": "{}"}} for i in ("c1", "c2")]
    following = [
        {"role": "tool", "tool_call_id": "c2", "content": "second"},
        {"role": "tool", "tool_call_id": "c1", "content": "first"},
        {"role": "user", "content": "thanks"},
    ]
    view = step_view(step(message={"content": None, "tool_calls": calls}), following=following, part_url="/parts/")
    assert ["first" in view.calls[0].results[0].html, "second" in view.calls[1].results[0].html] == [True, True]
    assert view.came_back == []


def test_a_result_of_a_call_beyond_those_shown_is_no_other_calls() -> None:
    calls = [{"id": f"c{i}", "function": {"name": "get", "arguments": "{}"}} for i in range(42)]
    following = [{"role": "tool", "tool_call_id": f"c{i}", "content": f"result {i}"} for i in range(1, 42)]
    view = step_view(step(message={"tool_calls": calls}), following=following, part_url="/parts/")
    assert view.calls[0].results == []
    assert ["result 40" in m.blocks[0].html or "result 41" in m.blocks[0].html for m in view.came_back] == [True, True]


def test_an_empty_result_is_told_from_none() -> None:
    calls = [{"id": i, "function": {"name": "get", "arguments": "{}"}} for i in ("c1", "c2")]
    following = [{"role": "tool", "tool_call_id": "c2", "content": "", "is_error": True}]
    view = step_view(step(message={"tool_calls": calls}), following=following, part_url="/parts/")
    html = collapsed(render_macro("trajectories/steps.jinja", "body", view))
    assert ["Nothing" in result.html for call in view.calls for result in call.results] == [True]
    assert 'class="part result bad"' in html


def test_words_of_a_user_after_a_text_command_are_its_result_and_not_heard_twice() -> None:
    observation = [{"role": "user", "content": "total 0"}]
    acting = step_view(step(message={"content": "ls"}), following=observation, part_url="/parts/")
    after = step_view(step(2, context=observation), following=[], part_url="/parts/", previous_kind="tool")
    assert [(message.title, message.blocks[0].form) for message in acting.came_back] == [("Result", "text")]
    assert after.context == []


def test_marks_that_reorder_text_are_visible_in_the_line_of_a_step_and_in_the_task() -> None:
    mark = "\u202e"  # from here on, browsers would show the text from right to left
    head = head_of(step(tool=f"get{mark}", headline=f"{mark}safe", result=f"done{mark}"))
    assert (head.tool, head.headline, head.result) == (r"get\u202e", r"\u202esafe", r"done\u202e")
    assert Task(instruction=f"Open{mark} it.").headline == r"Open\u202e it."


def test_blind_steps_carry_no_reward() -> None:
    view = step_view(step(reward=1.0), following=[], part_url="/parts/", blind=True)
    assert view.head.reward is None


def test_broken_rules_are_named_and_kept_from_the_blind() -> None:
    broken = {
        "violations": [
            {"rule": "no_preview", "hard": False},
            {"rule": "permanent_delete", "hard": True},
            {"rule": 1},
            "x",
        ]
    }
    assert broken_rules(broken) == ["no preview", "permanent delete (refused)"]
    assert broken_rules({"violations": {"rule": "x"}}) == broken_rules(None) == broken_rules({}) == []
    assert step_view(step(info=broken), following=[], part_url="/parts/", blind=True).rules == []


def test_who_spoke_and_what_the_source_blames_are_kept_from_the_blind() -> None:
    blamed = step(message={"content": "It is 4.", "name": "Coder"}, info={"mistake": "It misread the number."})
    view = step_view(blamed, following=[], part_url="/parts/")
    html = collapsed(render_macro("trajectories/steps.jinja", "body", view))
    assert ">Coder</h3>" in html
    assert "It misread the number." in html
    hidden = step_view(blamed, following=[], part_url="/parts/", blind=True)
    assert (hidden.speaker, hidden.mistake) == ("", "")
    assert ">Says</h3>" in collapsed(render_macro("trajectories/steps.jinja", "body", hidden))


def test_names_of_other_agents_are_kept_from_the_blind() -> None:
    heard = step(context=[{"role": role, "name": "claude", "content": "Go on."} for role in ("system", "assistant")])
    titles = {
        blind: [message.title for message in step_view(heard, following=[], part_url="/parts/", blind=blind).context]
        for blind in (False, True)
    }
    assert titles == {
        False: ["System prompt claude", "Assistant claude"],
        True: ["System prompt", "Assistant"],
    }


@pytest.mark.parametrize(
    ("result", "told_apart"),
    [
        ('{"error": "there is no \\"m81\\""}', False),
        ('Traceback: there is no "m81"', False),
        ("done", True),
        ("", True),
    ],
)
def test_an_error_that_the_result_tells_is_not_told_twice(result: str, told_apart: bool) -> None:
    calls = [{"id": name, "function": {"name": "find", "arguments": "{}"}} for name in ("first", "second")]
    following = [
        {"role": "tool", "tool_call_id": "first", "content": "found"},
        {"role": "tool", "tool_call_id": "second", "content": result},
    ]
    failed = step(message={"tool_calls": calls}, info={"error": 'there is no "m81"'})
    view = step_view(failed, following=following, part_url="/parts/")
    assert view.error == ('there is no "m81"' if told_apart else "")
    assert [call.failed for call in view.calls] == [False, not told_apart]


def test_every_part_that_is_shown_can_be_asked_for_again() -> None:
    long = "word " * 4_000
    arguments = {"old_str": "a\n" * 500, "new_str": "b\n" * 500, "note": long}
    message = {
        "content": [{"type": "text", "text": long}],
        "reasoning_content": long,
        "tool_calls": [{"id": "c", "function": {"name": "edit", "arguments": json.dumps(json.dumps(arguments))}}],
    }
    following = [{"role": "tool", "tool_call_id": "c", "content": long}]
    shown = step(message=message, context=[{"role": "user", "content": long}])
    view = step_view(shown, following=following, part_url="/parts/", previous_kind="message")
    html = collapsed(render_macro("trajectories/steps.jinja", "body", view))
    places = set(re.findall(r"/parts/\?at=([\w.]+)", html))
    assert places == {"said.0", "reasoning", "call.0.edit", "call.0.2", "before.0", "after.0"}
    for at in places:
        assert len(part_of(shown, following, at)) > 1_000


def test_the_rest_of_a_part_that_also_has_a_text_is_that_of_the_part() -> None:
    part = {"type": "tool_result", "text": "found", "output": list(range(200))}
    shown = step(message={"content": [part]})
    [block] = step_view(shown, following=[], part_url="/parts/").content
    assert ">140 more<" in block.html
    assert part_of(shown, [], "said.0") == part


@pytest.mark.parametrize(
    "at",
    [
        *("", "said.9", "before.0", "before.x", "before.x-", "before.0.call.0", "call.0", "call.0.edit", "after.-5.1"),
        *("__class__", "said.__len__"),
    ],
)
def test_a_part_that_does_not_exist_is_a_lookup_error(at: str) -> None:
    with pytest.raises(LookupError):
        part_of(step(), [], at)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_whole_step_of_hostile_content_is_inert(name: str) -> None:
    text = HOSTILE[name]
    message = {
        "content": text,
        "reasoning_content": text,
        "tool_calls": [
            {
                "id": text,
                "function": {"name": text, "arguments": {text: text, "command": text, "old": text, "new": text}},
            }
        ],
    }
    following = [
        {"role": "tool", "tool_call_id": text, "content": text},
        {"role": text, "name": text, "content": [{"type": text, "x": text}]},
    ]
    shown = step(
        message=message,
        context=[{"role": text, "content": text}],
        tool=text[:100],
        headline=text[:200],
        result=text[:200],
        info={"error": f"Failed: {text}", "violations": [{"rule": text}]},
    )
    view = step_view(shown, following=following, part_url="/parts/", is_last=True)
    html = collapsed(render_macro("trajectories/steps.jinja", "body", view))
    for forbidden in ("<script", "<img", "<svg", "<iframe", "<form", 'onerror="', 'href="javascript'):
        assert forbidden not in html.lower()


def test_a_demonstration_is_folded_as_one_and_says_that_it_is_not_this_task() -> None:
    context = [
        {"role": "system", "content": "You are an engineer."},
        {"role": "user", "content": "Fix the lamp.", "is_demo": True},
        {"role": "assistant", "content": "I turn it on.", "is_demo": True},
        {"role": "user", "content": "Fix the kettle."},
    ]
    view = step_view(step(0, context=context), following=[], part_url="/parts/")
    assert [(message.title, message.is_folded) for message in view.context] == [
        ("System prompt", True),
        ("Demonstration, not this task", True),
        ("User", False),
    ]
    demonstration = view.context[1]
    assert demonstration.size == "2 messages"
    assert ["lamp" in demonstration.blocks[0].html, "turn it on" in demonstration.blocks[1].html] == [True, True]


def test_of_a_long_prompt_the_end_is_shown_and_the_middle_is_a_tree() -> None:
    context = [
        {"role": ("user", "assistant")[i % 2], "content": f"Turn {i}, {'x' * 400}", "name": "gpt"} for i in range(101)
    ]
    shown = step(0, context=context)
    view = step_view(shown, following=[], part_url="/parts/", blind=True)
    assert [message.title for message in view.context[19:22]] == ["Assistant", "41 more messages", "Assistant"]
    assert "Turn 100," in view.context[-1].blocks[0].html
    [between] = view.context[20].blocks
    assert ["Turn 20," in between.html, "Turn 60," in between.html, "gpt" in between.html] == [True, True, False]
    said = part_of(shown, [], "before.20-60")
    assert (len(said), said[0]) == (41, {"role": "user", "content": context[20]["content"]})
    demonstration = [{**message, "is_demo": True} for message in context]
    folded = step_view(
        step(0, context=[*demonstration, {"role": "user", "content": "Go."}]), following=[], part_url="/"
    )
    assert [message.size for message in folded.context] == ["101 messages", "3 characters"]


def test_calls_of_turns_before_the_trajectory_are_shown() -> None:
    function = {"name": "search", "arguments": json.dumps({"query": "kettles", "note": "y" * 400})}
    calls = [{"id": "toolu_1", "type": "function", "function": function}]
    context = [
        {"role": "user", "content": "Find a kettle."},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "Three kettles."},
        {"role": "user", "content": "Buy one."},
    ]
    shown = step(0, context=context)
    view = step_view(shown, following=[], part_url="/parts/", blind=True)
    html = collapsed(render_macro("trajectories/steps.jinja", "body", view))
    assert ["Called search" in html, "kettles" in view.context[1].blocks[0].html, "toolu" in html] == [
        True,
        True,
        False,
    ]
    assert part_of(shown, [], "before.1.call.0")["query"] == "kettles"
    many = step(0, context=[{"role": "user", "content": "a"}] * 20 + context + [{"role": "user", "content": "b"}] * 40)
    [between] = step_view(many, following=[], part_url="/parts/").context[20].blocks
    assert "kettles" in between.html


def test_parts_beyond_the_first_ones_are_a_tree() -> None:
    content = [{"type": "text", "text": f"Part {i}"} for i in range(43)]
    shown = step(message={"content": content})
    view = step_view(shown, following=[], part_url="/parts/")
    assert (view.content[-1].label, "Part 42" in view.content[-1].html) == ("3 more parts", True)
    assert part_of(shown, [], "said.40-42") == content[40:]
