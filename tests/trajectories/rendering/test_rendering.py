"""Content of every kind, including hostile content, becomes markup that is safe, bounded, and legible."""

import base64
import json
import re
from typing import Any

import pytest

from apps.common.nested_json import arguments_of
from apps.trajectories.rendering import markdown, pages, terminal
from apps.trajectories.rendering.blocks import blocks_of, text_block
from apps.trajectories.rendering.calls import call_view
from apps.trajectories.rendering.diffs import patch_between, render_edit
from apps.trajectories.rendering.forms import FORMS, ContentLocation, chunk
from apps.trajectories.rendering.images import picture_of
from apps.trajectories.rendering.kinds import RUN, kind_of
from apps.trajectories.rendering.text import excerpt, legible
from apps.trajectories.rendering.trees import child
from tests.trajectories.hostile import HOSTILE, HUGE

PLACE = ContentLocation("/parts/", "said")
SAFE_TAGS = {
    "p",
    "br",
    "hr",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "li",
    "blockquote",
    "pre",
    "code",
    "em",
    "strong",
    "s",
    "a",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "span",
    "div",
    "mark",
    "details",
    "summary",
    "dl",
    "dt",
    "dd",
}


def assert_inert(html: str) -> None:
    """Only known elements, no handlers, and links only to the web or to our own parts."""
    for tag, attributes in re.findall(r"<\s*/?\s*([a-zA-Z!][^\s/>]*)([^>]*)>", html):
        assert tag.lower() in SAFE_TAGS, tag
        names = re.findall(r'\s([^\s=>"]+)=', re.sub(r'"[^"]*"', '""', attributes))
        assert set(names) <= {"class", "href", "target", "rel", "title", "scope", "start"}, attributes
    for address in re.findall(r'href="([^"]*)"', html):
        assert address.startswith(("/parts/?", "http://", "https://", "mailto:")), address


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("spoken", [True, False])
def test_hostile_content_is_inert_in_the_form_that_is_chosen(name: str, spoken: bool) -> None:
    block = text_block(HOSTILE[name], PLACE, spoken=spoken)
    assert_inert(block.html + block.more)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("form", sorted(FORMS))
def test_hostile_content_is_inert_in_every_form_that_can_be_asked_for(name: str, form: str) -> None:
    html, more, _ = chunk(HOSTILE[name], PLACE, form)
    assert_inert(html + more)


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize("form", sorted(FORMS))
def test_huge_content_is_bounded_and_encodable(name: str, form: str) -> None:
    html, more, _ = chunk(HUGE[name], PLACE, form)
    assert len((html + more).encode()) < 80_000
    assert "\0" not in html


@pytest.mark.timeout(10)
@pytest.mark.parametrize("name", HUGE)
def test_huge_content_is_rendered_quickly(name: str) -> None:
    block = text_block(HUGE[name], PLACE, tool=RUN)
    assert len(block.html) < 80_000


@pytest.mark.parametrize("form", ["text", "terminal", "prose", "patch", "edit", "command"])
def test_chunks_put_together_are_the_whole_text(form: str) -> None:
    text = "".join(f" line {i}\n" for i in range(5_000)) + "y" * 130_000
    position, shown = 0, ""
    while position is not None:
        html, more, _ = chunk(text, PLACE, form, start=position)
        shown += re.sub(r"<[^>]*>", "", html)
        link = re.search(r"from=(\d+)", more)
        position = int(link[1]) if link else None
    assert shown.replace("\n", "") == text.replace("\n", "")


def test_hidden_characters_are_shown() -> None:
    assert legible("a\0b\x1bc\ud800d\u202ee\x7f\r\n") == "a␀b␛c\\ud800d\\u202ee␡\n"


@pytest.mark.parametrize("mark", ["\u061c", "\u200b", "\u2028", "\u2069", "\U000e0041"])
def test_no_mark_hides_or_reorders_text(mark: str) -> None:
    assert legible(f"a{mark}b") == f"a{mark.encode('unicode_escape').decode()}b"


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ("a", "a\n", "-a\n\\ No newline at the end\n+a"),
        ("a\nb\n", "a\nb", " a\n-b\n+b\n\\ No newline at the end"),
        ("a\r\nb", "a\nb", "-a␍\n+a\n b"),
        ("a\r\nb\r\n", "a\r\nc\r\n", " a\n-b\n+c"),
        ("a\x0cb", "a\nb", "-a\x0cb\n+a\n+b"),
        ("a\n", "", "-a"),
        ("", "a\n\n", "+a\n+"),
    ],
)
def test_an_edit_of_line_ends_only_is_visible(old: str, new: str, patch: str) -> None:
    assert patch_between(old, new) == patch


def test_a_short_rest_is_not_hidden_behind_a_button() -> None:
    assert not excerpt("line\n" * 29).is_cut
    assert excerpt("line\n" * 60).text == "line\n" * 24


def test_terminal_colors_become_classes_and_other_sequences_go() -> None:
    assert terminal.render("\x1b[1;31mred\x1b[0m \x1b[2Kplain\x1b[38;5;2mgreen") == (
        '<span class="bold fg-1">red</span> plain<span class="fg-2">green</span>'
    )


def test_an_exit_code_is_told_apart_from_the_output() -> None:
    block = text_block("<returncode>2</returncode>\n<output>\nno such file\n</output>", PLACE, tool=RUN)
    assert (block.label, block.is_bad) == ("Exit code 2", True)
    assert "no such file" in block.html
    assert "returncode" not in block.html


def test_markdown_keeps_its_structure_and_marks_its_links() -> None:
    html = markdown.render("# A\n\n- **b** [c](https://example.org)\n\n| x |\n|---|\n| 1 |")
    assert "<h4>A</h4>" in html
    assert '<a href="https://example.org" target="_blank" rel="noopener nofollow noreferrer">c</a>' in html
    assert "<td>1</td>" in html


def test_a_page_reads_as_text_without_its_scripts() -> None:
    html = "<html><head><title>Shop</title></head><body><h2>Cart</h2><script>alert(1)</script><ul><li>Tea<li>Milk</ul><a href='https://x.org'>Pay</a>"
    assert pages.text_of(html) == "Shop\n\n## Cart\n\n• Tea\n\n• Milk\n\nPay ‹https://x.org›"


def test_an_edit_reads_as_the_patch_between_its_texts() -> None:
    call = {
        "function": {
            "name": "edit",
            "arguments": {"path": "a.py", "old_str": "x = 1\ny = 2", "new_str": "x = 1\ny = 3"},
        }
    }
    (block,) = call_view(call, "/parts/", 0).blocks
    assert block.label == "a.py"
    assert block.html == (
        '<pre class="edit"> x = 1\n'
        '<span class="remove">-y = <mark>2</mark>\n</span><span class="add">+y = <mark>3</mark>\n</span></pre>'
    )


def test_a_patch_leaves_out_what_did_not_change() -> None:
    lines = [str(i) for i in range(40)]
    assert patch_between("\n".join(lines), "\n".join([*lines[:-1], "end"])).splitlines() == [
        "@@ 36 unchanged lines @@",
        " 36",
        " 37",
        " 38",
        "-39",
        "+end",
    ]
    assert render_edit("-a\n+b") == '<span class="remove">-a\n</span><span class="add">+b\n</span>'


@pytest.mark.parametrize(
    ("raw", "value", "encoded", "problem"),
    [
        ({"a": 1}, {"a": 1}, 0, ""),
        ('{"a": 1}', {"a": 1}, 1, ""),
        (json.dumps('{"a": 1}'), {"a": 1}, 2, ""),
        ("", {}, 0, ""),
        (None, {}, 0, ""),
        ("[1]", [1], 1, "not an object"),
        (
            "{'a': 1}",
            "{'a': 1}",
            0,
            "not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
    ],
)
def test_arguments_are_read_however_they_were_encoded(raw: Any, value: Any, encoded: int, problem: str) -> None:
    assert arguments_of(raw) == (value, encoded, problem)


def test_unparsable_arguments_are_shown_raw_and_marked() -> None:
    view = call_view({"function": {"name": "bash", "arguments": '{"command": "ls'}}, "/parts/", 0)
    assert view.problem.startswith("not valid JSON")
    assert "&quot;command&quot;: &quot;ls" in view.blocks[0].html


def test_a_command_comes_first_and_short_arguments_are_facts() -> None:
    arguments = {"timeout": 30, "command": "ls -la\npwd", "background": False}
    view = call_view({"function": {"name": "bash", "arguments": json.dumps(arguments)}}, "/parts/", 0)
    assert [block.form for block in view.blocks] == ["command"]
    assert [(fact.name, fact.value) for fact in view.facts] == [("timeout", "30"), ("background", "false")]


@pytest.mark.parametrize(
    ("tool", "slug"),
    [
        ("bash", "run"),
        ("str_replace_editor", "write"),
        ("view_file", "read"),
        ("searchFlights", "search"),
        ("goto_url", "browse"),
        ("submit", "finish"),
        ("frobnicate", "other"),
    ],
)
def test_tools_have_the_kind_that_their_name_says(tool: str, slug: str) -> None:
    assert kind_of("tool", tool).slug == slug


def test_a_tree_of_any_size_can_be_walked_to_every_leaf() -> None:
    value: Any = "leaf"
    for i in range(60):
        value = {f"level{i}": value, "side": list(range(100))}
    text = json.dumps(value)
    waiting, seen = [(0, "")], set()
    shown = ""
    while waiting:
        start, path = waiting.pop()
        html, more, _ = chunk(text, PLACE, "tree", start=start, path=path)
        shown += html
        for begin, at in re.findall(r"from=(\d+)(?:&amp;path=([\d.]+))?", html + more):
            if (int(begin), at) not in seen:
                seen.add((int(begin), at))
                waiting.append((int(begin), at))
    assert "leaf" in shown
    assert child(value, "0.0") == value["level59"]["level58"]


PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x02\x00\x00\x00\x03\x08\x06\x00\x00\x00" + b"\x00" * 20


def image(body: bytes, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{base64.b64encode(body).decode()}"}}


def test_a_picture_is_what_its_bytes_say() -> None:
    picture = picture_of(image(PNG, "image/jpeg"))
    assert not isinstance(picture, str)
    assert picture[:3] == ("image/png", 2, 3)


@pytest.mark.parametrize(
    "part",
    [
        image(b"<svg onload=alert(1)>", "image/png"),
        image(b"<svg/>", "image/svg+xml"),
        image(PNG[:16] + b"\x7f\xff\xff\xff\x7f\xff\xff\xff" + PNG[24:]),
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}},
        {"type": "image_url", "image_url": {"url": "https://tracker.example/x.png"}},
        {"type": "image_url", "image_url": {"url": "javascript:alert(1)"}},
        {"type": "image"},
    ],
)
def test_what_is_not_a_checked_picture_is_not_shown(part: dict[str, Any]) -> None:
    (block,) = blocks_of([part], "/parts/", "said")
    assert "<img" not in block.html
    assert "javascript:" not in block.html


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "image", "source": {"type": "url", "url": "https://a.example/x.png"}}, "An external image"),
        ({"type": "image_url", "image_url": "data:image/svg+xml,%3Csvg/%3E"}, "not a Base64-encoded PNG"),
        ({"type": "image", "source": {"type": "file", "file_id": "f1"}}, "without data"),
    ],
)
def test_why_an_image_is_not_shown_is_true(part: dict[str, Any], words: str) -> None:
    (block,) = blocks_of([part], "/parts/", "said")
    assert words in block.html


@pytest.mark.parametrize("length", [300, 3_000])
def test_the_link_to_an_external_image_is_its_whole_address_or_none(length: int) -> None:
    address = f"https://a.example/{'x' * length}"
    (block,) = blocks_of([{"type": "image_url", "image_url": {"url": address}}], "/parts/", "said")
    assert (f'href="{address}"' in block.html, "href" in block.html) == (length < 2_000, length < 2_000)
