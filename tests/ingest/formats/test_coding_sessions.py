"""Sessions of coding agents: a file of lines is one trajectory."""

import json
from pathlib import Path
from typing import Any

from apps.ingest import formats
from apps.ingest.upload import recognize_file
from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.rows import read, refusal

ASKED = {"role": "user", "content": "Fix it."}
LOOK = {"id": "c1", "type": "function", "function": {"name": "Bash", "arguments": {"command": "ls"}}}
READ = {"id": "c2", "type": "function", "function": {"name": "Read", "arguments": {"path": "a"}}}


def line(number: int, role: str, content: Any, parent: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "type": role,
        "uuid": f"u{number}",
        "parentUuid": None if parent is None else f"u{parent}",
        "sessionId": "s",
        "timestamp": f"2026-01-01T00:00:{number:02}.000Z",
        "message": {"role": role, "content": content, **more.pop("message", {})},
        **more,
    }


def used(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": function["arguments"]}


def result(call: dict[str, Any], text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call["id"], "content": text}


def answer(number: int, part: dict[str, Any], parent: int, name: str, **more: Any) -> dict[str, Any]:
    about = {"id": name, "model": "m", "usage": {"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 7}}
    return line(number, "assistant", [part], parent, message=about, **more)


SESSION = [
    {"type": "summary", "summary": "A repair", "leafUuid": "u9"},
    line(1, "user", "Fix it."),
    answer(2, {"type": "thinking", "thinking": "I look."}, 1, "a"),
    answer(3, used(LOOK), 2, "a"),
    answer(4, used(READ), 3, "a"),
    # Results are attached to the parts that made the calls, so the path back from the last line includes only one of them.
    line(5, "user", [result(LOOK, "README")], 3),
    line(6, "user", [result(READ, "text")], 4),
    answer(8, {"type": "text", "text": "Done."}, 6, "b"),
]


def test_a_session_is_one_run_whose_answers_are_put_together():
    record = read("claude-code", SESSION)
    first, last = record.steps
    assert first.message == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "I look.",
        "tool_calls": [LOOK, READ],
    }
    assert [(heard["tool_call_id"], heard["content"]) for heard in last.context] == [("c1", "README"), ("c2", "text")]
    assert (first.seconds, first.prompt_tokens, first.completion_tokens) == (3.0, 95, 7)
    assert (record.id, record.policy, record.task.instruction) == ("s", "m", "Fix it.")
    assert record.info == {"title": "A repair"}


def test_what_the_agent_went_back_from_is_left_out():
    row = [
        *SESSION,
        line(10, "user", "No, the other one.", 1),
        answer(11, {"type": "text", "text": "That one."}, 10, "c"),
    ]
    assert [message["content"] for message in read("claude-code", row).messages()] == [
        "Fix it.",
        "No, the other one.",
        "That one.",
    ]


def test_agents_that_it_started_are_runs_of_their_own():
    side = {"isSidechain": True}
    row = [
        *SESSION,
        line(20, "user", "Count the files.", **side),
        answer(21, {"type": "text", "text": "Three."}, 20, "d", **side),
    ]
    session, started = formats.named("claude-code").read(row, "f")
    assert (len(session.steps), started.id) == (2, "s/u20")
    assert (session.whole, started.whole) == (None, session)
    assert [message["content"] for message in started.messages()] == ["Count the files.", "Three."]


def test_what_claude_code_made_up_is_nobodys_turn():
    made_up = line(
        9, "assistant", [{"type": "text", "text": "API error"}], 8, message={"model": "<synthetic>", "id": "x"}
    )
    assert len(read("claude-code", [*SESSION, made_up]).steps) == 2


def test_a_session_in_which_nobody_speaks_is_refused():
    assert refusal("claude-code", SESSION[:1])[0] == "This session has no messages."


def test_sessions_in_one_file_are_a_run_each():
    other = [
        {**line(31, "user", "Count."), "sessionId": "t"},
        {**answer(32, {"type": "text", "text": "Three."}, 31, "e"), "sessionId": "t"},
    ]
    first, second = formats.named("claude-code").read([*SESSION, *other], "f")
    assert [(record.id, len(record.steps)) for record in (first, second)] == [("s", 2), ("t", 1)]
    assert second.part == other
    resumed = [{**other[0], "parentUuid": "u8"}, other[1]]
    assert len(read("claude-code", [*SESSION, *resumed]).steps) == 3


def test_a_session_that_was_printed_is_read():
    def printed(kind: str, agent: str | None, *parts: Any) -> dict[str, Any]:
        role = {"role": kind, "content": [*parts], "model": "m"}
        return {"type": kind, "message": role, "session_id": "s", "parent_tool_use_id": agent}

    row = [
        {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash"]},
        printed("assistant", None, used(LOOK)),
        printed("user", "c1", {"type": "text", "text": "Count."}),
        printed("assistant", "c1", {"type": "text", "text": "Three."}),
        printed("user", None, result(LOOK, "README")),
        printed("assistant", None, {"type": "text", "text": "Done."}),
        {"type": "result", "subtype": "success", "session_id": "s", "num_turns": 2, "total_cost_usd": 0.1},
    ]
    session, started = formats.named("claude-code").read(row, "f")
    assert [message["content"] for message in session.messages()] == [None, "README", "Done."]
    assert [message["content"] for message in started.messages()] == ["Count.", "Three."]
    assert (session.id, session.task.key, session.termination) == ("s", "s", "success")
    assert (session.policy, session.info) == ("m", {"num_turns": 2, "total_cost_usd": 0.1})


def test_what_the_user_sent_while_the_agent_worked_is_part_of_the_chat():
    queued = {"type": "queued_command", "prompt": "Count too.", "commandMode": "prompt"}
    sent = {**line(9, "attachment", None, 6), "message": None, "attachment": queued}
    record = read("claude-code", [*SESSION[:-1], sent, answer(10, {"type": "text", "text": "Three."}, 9, "b")])
    assert record.steps[-1].context[-1] == {"role": "user", "content": "Count too."}
    assert record.task.instruction == "Fix it."


CODEX = [
    {"type": "session_meta", "payload": {"id": "s", "cwd": "/repo", "instructions": "Be brief."}},
    {"type": "turn_context", "payload": {"model": "m"}},
]


def item(second: int, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-01-01T00:00:{second:02}Z", "type": "response_item", "payload": payload}


def entry(second: int, role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item(second, type="message", role=role, content=[{"type": kind, "text": text}])


def test_a_codex_session_is_one_run():
    row = [
        *CODEX,
        entry(0, "user", "<environment_context>here</environment_context>"),
        entry(1, "user", "Fix it."),
        item(3, type="reasoning", summary=[{"type": "summary_text", "text": "I look."}], encrypted_content="…"),
        item(4, type="function_call", name="shell", arguments='{"command": ["ls"]}', call_id="c1"),
        {
            "type": "event_msg",
            "payload": {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 9, "output_tokens": 4}}},
        },
        item(5, type="function_call_output", call_id="c1", output="README"),
        item(6, type="custom_tool_call", name="apply_patch", input="*** Begin", call_id="c2"),
        item(7, type="custom_tool_call_output", call_id="c2", output="ok"),
        entry(9, "assistant", "Done."),
    ]
    record = read("codex", row)
    first, second, last = record.steps
    assert first.message["reasoning_content"] == "I look."
    assert first.message["tool_calls"][0]["function"] == {"name": "shell", "arguments": '{"command": ["ls"]}'}
    assert (first.prompt_tokens, first.completion_tokens) == (9, 4)
    assert second.message["tool_calls"][0]["function"] == {"name": "apply_patch", "arguments": {"input": "*** Begin"}}
    assert [message["content"] for message in (*second.context, *last.context, last.message)] == [
        "README",
        "ok",
        "Done.",
    ]
    assert (record.policy, record.id, record.task.instruction) == ("m", "s", "Fix it.")


def test_the_same_prompt_is_the_same_task_in_every_version_of_codex():
    def key(instructions: str) -> str:
        session = {"type": "session_meta", "payload": {"id": "s", "base_instructions": {"text": instructions}}}
        modes = entry(0, "developer", f"<collaboration_mode>{instructions}</collaboration_mode>")
        return read("codex", [session, modes, entry(1, "user", "Fix it."), entry(2, "assistant", "Done.")]).task.key

    assert key("Be brief.") == key("Be very brief.")


def test_codex_sessions_in_one_file_are_a_run_each():
    def session(name: str, began: str) -> dict[str, Any]:
        return {"type": "session_meta", "payload": {"id": name, "timestamp": began}}

    first, second = session("s", "2026-01-01T00:00:00Z"), session("t", "2026-01-02T00:00:00Z")
    chat = [entry(1, "user", "Fix it."), entry(2, "assistant", "Done.")]
    both = list(formats.named("codex").read([first, *chat, second, *chat], "f"))
    assert [(record.id, len(record.steps)) for record in both] == [("s", 1), ("t", 1)]
    assert both[1].part == [second, *chat]
    forked = read("codex", [second, first, *chat, *chat])
    assert (forked.id, len(forked.steps)) == ("t", 2)


def test_files_of_lines_are_recognized(tmp_path: Path):
    for name, row in (
        ("claude-code", SESSION),
        ("claude-code", SESSION[1:]),
        ("claude-code", [{"type": "permission-mode", "permissionMode": "default", "sessionId": "s"}, *SESSION[1:]]),
        ("codex", EXAMPLES["codex"]),
        ("goose", EXAMPLES["goose"]),
    ):
        path = tmp_path / "session.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in row))
        with path.open("rb") as file:
            _, rows, format = recognize_file(file)
            (only_row,) = rows
        assert format.name == name
        assert len(list(format.read(json.loads(only_row.body), path.name))) == 1


def test_a_line_that_was_cut_off_keeps_no_session_out(tmp_path: Path):
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in SESSION) + '{"type": "assi')
    with path.open("rb") as file:
        _, rows, format = recognize_file(file)
        cut, whole = rows
    assert (cut.position, cut.line, cut.problem[:9]) == (0, len(SESSION) + 1, "Not JSON:")
    (record,) = format.read(json.loads(whole.body), path.name)
    assert (whole.position, len(record.steps)) == (1, 2)
