"""Everything that a policy wrote is on the page, or behind a link that says so: nothing in its text decides what people see of it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from apps.trajectories.models import Step
from apps.trajectories.rendering import markdown
from apps.trajectories.rendering.blocks import Block, blocks_of
from apps.trajectories.rendering.calls import EDITS, PATHS, call_view
from apps.trajectories.rendering.step_parts import part_of
from apps.trajectories.rendering.steps import step_view

SECRET = "xyzzy"


@pytest.mark.parametrize(
    "text",
    [
        "> " * 14 + SECRET,
        "- " * 14 + SECRET,
        f"| a | b |\n|---|---|\n| 1 | 2 | {SECRET} |",
        f"See [](https://example.org/{SECRET}).",
        f"See [**](https://example.org/{SECRET}).",
        f"```python {SECRET}\nx = 1\n```",
        f"~~~{SECRET * 5}\nx = 1\n~~~",
        f"[a](https://example.org '{SECRET}')",
        f"[{SECRET}]: https://example.org\n\n**b**",
        f"<!-- {SECRET} -->\n\n**b**",
        f"<b hidden>{SECRET}</b> **b**",
        f"![{SECRET}](https://example.org/a.png)",
        f"<https://example.org/{SECRET}> **b**",
        f"7. a\n1. b\n   1. **{SECRET}**",
    ],
)
def test_no_markdown_hides_a_word(text: str) -> None:
    assert SECRET in _outside_tags(markdown.render(text))


@pytest.mark.parametrize("reference", ["&#x202e;", "&rlm;", "&#8206;", "&#x2066;", "&#x1b;"])
def test_no_character_reference_hides_a_mark_that_reorders_text(reference: str) -> None:
    for text in (f"{reference}abc **b**", f"| {reference} | **b** |\n|---|---|\n| [{reference}](https://a.org) | 1 |"):
        assert not {"\u202e", "\u200f", "\u200e", "\u2066", "\x1b"} & set(markdown.render(text))


def test_ordinary_markdown_is_rendered() -> None:
    text = (
        "# A\n\n1. **b** un*believ*able\n2. [c](https://example.org/caf%C3%A9)\n\n| x | y |\n|---|:-:|\n| 1 | 2 |\n\n"
        "> `snake_case` a\\*b \\\nc <https://example.org>\n\n```c++\nint x;\n```\n\n    indented\n\n- [ ] task\n"
    )
    html = markdown.render(text)
    assert all(tag in html for tag in ("<h4>", "<ol>", "<strong>", "<table>", "<blockquote>", "<pre>", "<ul>"))
    assert 'class="prose"' not in html


ROW = {"path": "a.py", "line": 3}
HIT = {"title": "A page", "url": "https://example.org", "snippet": "About it."}
MAIL = {"to": "ada@example.org", "subject": "Hello", "body": "Dear Ada,"}
LOSSES: list[Any] = [
    [ROW] * 50 + [{**ROW, SECRET: 1}],
    [ROW] * 50 + [SECRET],
    [{**ROW, "note": "x" * 200 + SECRET}, *[{**ROW, "note": ""}] * 20],
    [HIT, {**HIT, "note": SECRET}],
    [HIT, {**HIT, "description": SECRET}],
    [{**HIT, "title": "x" * 200 + SECRET}],
    [HIT] * 50 + [SECRET],
    [{**HIT, SECRET: False}],
    {**MAIL, "cc": "x" * 200 + SECRET},
    {**MAIL, **{f"x-{n}": n for n in range(20)}, "bcc": SECRET},
    {**MAIL, "x" * 60 + SECRET: 1},
]


@pytest.mark.parametrize("value", LOSSES)
def test_json_that_a_form_would_cut_is_a_tree(value: Any) -> None:
    [said] = blocks_of(json.dumps(value), "/", "said", spoken=True)
    [result] = blocks_of(json.dumps(value), "/", "after.0")
    call = _call({"value": value, "text": json.dumps(value)})
    assert {block.form for block in (said, *call)} == {"tree"}
    assert result.form != "tree"  # a tool's result may be shown in short, with a link to its source
    assert result.source


@pytest.mark.parametrize("value", [value for value in LOSSES if isinstance(value, dict)])
def test_a_result_that_is_no_text_and_would_be_cut_is_a_tree(value: Any) -> None:
    [result] = blocks_of(value, "/", "after.0")  # without text, there is no source to link to
    assert result.form == "tree"


def test_json_that_fits_keeps_its_form() -> None:
    forms = [_call({"value": value})[0].form for value in ([ROW] * 3, [HIT] * 3, MAIL)]
    assert forms == ["table", "results", "mail"]


@pytest.mark.parametrize(
    "text", [f"<html><body>a<script>{SECRET}</script>\n</body></html>", f"\x1b[1m\x1b]0;{SECRET}\x07\n"]
)
def test_a_text_that_a_policy_writes_to_a_tool_is_shown_as_written(text: str) -> None:
    [block] = _call({"content": text})
    assert block.form == "text"
    assert SECRET in block.html


@pytest.mark.parametrize("pair", EDITS)
@pytest.mark.parametrize("path", PATHS)
def test_beside_an_edit_every_other_argument_is_shown(pair: tuple[str, str], path: str) -> None:
    others = {name: f"{SECRET}{len(name)}{name[:3]}" for name in {name for other in EDITS for name in other} | {*PATHS}}
    arguments = {
        **dict.fromkeys(pair, "a"),
        path: "a.py",
        **{k: v for k, v in others.items() if k not in (*pair, path)},
    }
    view = call_view({"function": {"name": "edit", "arguments": arguments}}, "/", 0)
    shown = " ".join([*(fact.value for fact in view.facts), *(block.html + block.label for block in view.blocks)])
    assert all(str(value) in _outside_tags(shown) for value in arguments.values())


@pytest.mark.parametrize("path", ["x" * 300 + SECRET, ["a.py", SECRET], None])
def test_a_path_that_is_no_label_is_shown_as_an_argument(path: Any) -> None:
    view = call_view({"function": {"name": "edit", "arguments": {"old": "a", "new": "b", "path": path}}}, "/", 0)
    assert len(view.blocks) + len(view.facts) == 2


def test_marks_that_take_space_do_not_cut_a_short_argument() -> None:
    view = call_view({"function": {"name": "run", "arguments": {"note": "\u202e" * 60 + SECRET}}}, "/", 0)
    assert SECRET in "".join([*(fact.value for fact in view.facts), *(block.html for block in view.blocks)])


@pytest.mark.parametrize("said", [{"refusal": SECRET}, {"audio": {"id": "a", "transcript": SECRET}}])
def test_what_a_policy_said_outside_its_content_is_shown(said: dict[str, Any]) -> None:
    step = Step(index=1, kind="message", context=[], message={"role": "assistant", "content": None, **said})
    view = step_view(step, following=[], part_url="/")
    assert SECRET in "".join(block.html for block in view.content)
    [name] = said
    assert part_of(step, [], name) == said[name]


def _call(arguments: dict[str, Any]) -> list[Block]:
    return call_view({"function": {"name": "write_file", "arguments": arguments}}, "/", 0).blocks


def _outside_tags(html: str) -> str:
    return re.sub(r"<[^>]*>", " ", html)


@pytest.mark.parametrize("beside", [5, {"a": [1]}, SECRET])
def test_an_argument_without_a_name_beside_an_edit_is_shown(beside: Any) -> None:
    view = call_view({"function": {"name": "edit", "arguments": {"old": "a", "new": "b", "": beside}}}, "/", 0)
    assert [fact.name for fact in view.facts] + [block.form for block in view.blocks] in (
        ["", "edit"],
        ["edit", "tree"],
    )


@pytest.mark.parametrize("written", ["\t", "  a   b ", " "])
def test_white_space_in_a_short_argument_is_kept(written: str) -> None:
    (fact,) = call_view({"function": {"name": "join", "arguments": {"separator": written}}}, "/", 0).facts
    assert fact.value == written


def test_calls_beyond_those_shown_one_by_one_are_a_tree() -> None:
    calls = [{"id": f"c{i}", "function": {"name": f"tool{i}", "arguments": {"at": i}}} for i in range(43)]
    calls[41]["function"] = {"name": SECRET, "arguments": {"at": SECRET * 200}}
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    given = Step(index=1, kind="tool", context=[message], message=message)
    view = step_view(given, following=[], part_url="/")
    [more] = view.more_calls
    assert (more.label, SECRET in more.html) == ("3 more calls", True)
    assert view.context[0].blocks[-1].label == "3 more calls"
    for at in ("call.40-42", "before.0.call.40-42"):
        assert part_of(given, [], at)[1] == calls[41]["function"]


def test_a_number_that_is_cut_says_so() -> None:
    [block] = blocks_of([{"type": "x", "n": 10**400}], "/", "after.0")
    assert "0…<" in block.html
