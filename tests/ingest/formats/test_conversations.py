"""Exports of chat applications: every branch is a trajectory, and tool output is never the policy's."""

import copy
import io
import json
import time
from typing import Any

import pytest

from apps.ingest import formats
from apps.ingest.normalization import branches
from apps.ingest.records import BadParts
from apps.ingest.upload import recognize_file
from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.rows import read, refusal
from tests.ingest.formats.test_frameworks import LISTED, plain

EXPORTS = ("chatgpt", "claude-ai", "copilot-chat", "librechat", "open-webui")
NODES: list[dict[str, Any]] = list(EXAMPLES["chatgpt"]["mapping"].values())


def node(name: str, parent: str | None, message: dict[str, Any] | None) -> dict[str, Any]:
    """A node in ChatGPT's message tree."""
    return {"id": name, "parent": parent, "children": [], "message": message and {"id": name, **message}}


def words(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"author": {"role": role}, "content": {"content_type": "text", "parts": [text]}, "recipient": "all", **more}


def described(name: str, row: Any) -> list[tuple[bool, str, Any, list[Any]]]:
    return plain(read(name, copy.deepcopy(row)))


def chatgpt(*nodes: dict[str, Any], current: str = "") -> dict[str, Any]:
    return {"id": "v", "current_node": current, "mapping": {node["id"]: node for node in nodes}}


@pytest.mark.parametrize("name", EXPORTS)
def test_a_call_its_result_and_the_answer_are_told_apart(name: str) -> None:
    assert described(name, EXAMPLES[name]) == LISTED
    record = read(name, EXAMPLES[name])
    assert (record.id, record.task.instruction) == ("v1", "List the files.")
    assert record.policy == {"claude-ai": None, "copilot-chat": "copilot/m"}.get(name, "m")


def test_calls_of_librechats_assistants_are_read() -> None:
    row = copy.deepcopy(EXAMPLES["librechat"])
    part = row["messages"][-1]["content"][0]
    function = {"name": "bash", "arguments": '{"command": "ls"}', "output": "README.md"}
    part["tool_call"] = {"id": "c1", "type": "function", "function": function}
    assert described("librechat", row) == LISTED


def of_librechat() -> dict[str, Any]:
    row = copy.deepcopy(EXAMPLES["librechat"])
    last = row["messages"][-1]["messageId"]
    failed = {"messageId": "e", "parentMessageId": last, "isCreatedByUser": False, "text": "Quota!", "error": True}
    return {**row, "messages": [*row["messages"], failed]}


def of_open_webui() -> dict[str, Any]:
    row = copy.deepcopy(EXAMPLES["open-webui"])
    history = row["chat"]["history"]
    failed = {"role": "assistant", "content": "", "error": {"content": "Quota!"}, "parentId": history["currentId"]}
    row["chat"]["history"] = {"messages": {**history["messages"], "e": {"id": "e", **failed}}, "currentId": "e"}
    return row


def test_pictures_of_opencode_are_in_the_form_of_chats() -> None:
    row = copy.deepcopy(EXAMPLES["opencode"])
    url = "data:image/png;base64,AA"
    row["messages"][0]["parts"].append({"type": "file", "mime": "image/png", "filename": "a.png", "url": url})
    content = read("opencode", row).steps[0].context[0]["content"]
    assert content[-1] == {"type": "image_url", "image_url": {"url": url}}


def of_opencode() -> dict[str, Any]:
    row = copy.deepcopy(EXAMPLES["opencode"])
    failed = {"role": "assistant", "error": {"name": "APIError", "data": {"message": "Quota!"}}}
    return {**row, "messages": [*row["messages"], {"info": failed, "parts": [{"type": "step-start"}]}]}


@pytest.mark.parametrize(
    "row", [of_librechat(), of_open_webui(), of_opencode()], ids=["librechat", "open-webui", "opencode"]
)
def test_an_error_in_place_of_an_answer_is_not_the_policys(row: Any, request: pytest.FixtureRequest) -> None:
    record = read(request.node.callspec.id, row)
    assert [step.message["content"] for step in record.steps] == [None, "One."]
    assert record.closing == [{"role": "assistant", "content": "Quota!", "loss": False}]


@pytest.mark.parametrize("name", EXPORTS)
def test_a_file_of_conversations_is_one_list_of_records(name: str) -> None:
    body = json.dumps([EXAMPLES[name]] * 2, indent=1).encode()
    _, rows, format = recognize_file(io.BytesIO(body))
    assert (format.name, len(list(rows))) == (name, 2)


@pytest.mark.parametrize("name", EXPORTS)
def test_a_conversation_that_nobody_answers_is_refused(name: str) -> None:
    row = copy.deepcopy(EXAMPLES[name])
    if name == "chatgpt":
        row["mapping"] = dict(list(row["mapping"].items())[:3])
    elif name == "open-webui":
        del row["chat"]["history"]["messages"]["b"]
    elif name == "copilot-chat":
        row["requests"][0] |= {"response": [], "result": {}}
    else:
        del row["chat_messages" if name == "claude-ai" else "messages"][1]
    assert refusal(name, row)[0].endswith("has no answers.")


def test_an_answer_that_was_asked_for_again_is_a_run_of_the_same_task_and_the_open_one_is_first() -> None:
    again = node("f", "d", words("assistant", "A file.", metadata={"model_slug": "n"}))
    row = chatgpt(*NODES, again, current="f")
    runs = list(formats.named("chatgpt").read(row, "conversations.json"))
    assert [(run.id, run.policy, run.steps[-1].message["content"]) for run in runs] == [
        ("v", "n", "A file."),
        ("v/2", "m", "One."),
    ]
    assert runs[0].task == runs[1].task
    assert [message["id"] for message in runs[1].part] == ["root", "a", "b", "c", "d", "e"]


def test_of_very_many_branches_the_first_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "MAX_BRANCHES", 3)
    ends = [node(f"x{number}", "d", words("assistant", str(number))) for number in range(5)]
    runs = formats.named("chatgpt").read(chatgpt(*NODES[:5], *ends), "")
    assert [next(runs).steps[-1].message["content"] for _ in range(3)] == ["0", "1", "2"]
    with pytest.raises(BadParts, match="more than 3 branches"):
        next(runs)


def test_messages_that_answer_one_another_in_a_circle_end() -> None:
    assert list(branches.branch_paths({"a": "b", "b": "a"}, lambda parent: parent)) == []
    assert list(branches.branch_paths({"a": "", "b": "a"}, lambda parent: parent)) == [["", "a"]]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (words("assistant", "Words."), (True, "assistant", "Words.", [])),
        (
            {"author": {"role": "tool", "name": "web"}, "content": {"content_type": "tether_quote", "text": "a page"}},
            (False, "tool", "a page", []),
        ),
        (
            {"author": {"role": "tool"}, "content": {"content_type": "system_error", "name": "E", "text": "failed"}},
            (False, "tool", "failed", []),
        ),
        (
            {
                "author": {"role": "user"},
                "content": {"content_type": "user_editable_context", "user_instructions": "Be brief."},
            },
            (False, "system", "Be brief.", []),
        ),
        (
            {"author": {"role": "user"}, "content": {"content_type": "unheard_of", "what": "something"}},
            (False, "user", '{"what":"something"}', []),
        ),
        (
            {
                "author": {"role": "assistant"},
                "recipient": "python",
                "content": {"content_type": "code", "text": "print(1)"},
            },
            (True, "assistant", None, [{"name": "python", "arguments": {"input": "print(1)"}}]),
        ),
    ],
)
def test_what_chatgpt_keeps_of_a_message_is_whose_it_is(message: dict[str, Any], expected: Any) -> None:
    row = chatgpt(*NODES, node("f", "e", message), node("g", "f", words("assistant", "Done.")))
    assert described("chatgpt", row) == [*LISTED, expected, (True, "assistant", "Done.", [])]


def test_thoughts_are_reasoning_and_their_recap_is_nobodys() -> None:
    thoughts = {
        "author": {"role": "assistant"},
        "content": {"content_type": "thoughts", "thoughts": [{"summary": "Look", "content": "I look."}]},
    }
    recap = {
        "author": {"role": "assistant"},
        "content": {"content_type": "reasoning_recap", "content": "Thought for 2s"},
    }
    ending = [node("f", "b", thoughts), node("g", "f", recap), node("h", "g", words("assistant", "One."))]
    (step,) = read("chatgpt", chatgpt(*NODES[:3], *ending)).steps
    assert step.message == {"role": "assistant", "content": "One.", "reasoning_content": "I look."}


def test_pictures_stay_beside_the_words_that_came_with_them() -> None:
    parts = [{"content_type": "image_asset_pointer", "asset_pointer": "file-service://f"}, "What is it?"]
    message = {"author": {"role": "user"}, "content": {"content_type": "multimodal_text", "parts": parts}}
    record = read("chatgpt", chatgpt(node("a", None, message), node("b", "a", words("assistant", "A cat."))))
    assert record.task.instruction.endswith("What is it?")
    assert record.steps[0].context[0]["content"][0] == {
        "type": "image_asset_pointer",
        "asset_pointer": "file-service://f",
    }


def test_text_of_attached_files_is_what_the_person_said() -> None:
    row = copy.deepcopy(EXAMPLES["claude-ai"])
    row["chat_messages"][0]["attachments"] = [{"file_name": "a.txt", "extracted_content": "all of it"}]
    (message,) = read("claude-ai", row).steps[0].context
    assert [part["text"] for part in message["content"]] == ["List the files.", "a.txt\nall of it"]


def test_branches_of_claude_ai_and_librechat_are_runs() -> None:
    row = copy.deepcopy(EXAMPLES["claude-ai"])
    question, answer = row["chat_messages"]
    question["parent_message_uuid"] = "00000000-0000-4000-8000-000000000000"
    answer["parent_message_uuid"] = "a"
    row["chat_messages"].append({**answer, "uuid": "c", "content": [{"type": "text", "text": "Again."}]})
    answers = [run.steps[-1].message["content"] for run in formats.named("claude-ai").read(row, "")]
    assert answers == ["Again.", "One."]
    row = copy.deepcopy(EXAMPLES["librechat"])
    again = {"messageId": "c", "parentMessageId": "a", "isCreatedByUser": False, "text": "Again."}
    for messages in ([*row["messages"], again], [{**row["messages"][0], "children": [row["messages"][1], again]}]):
        runs = formats.named("librechat").read({**row, "messages": messages}, "")
        assert [run.steps[-1].message["content"] for run in runs] == ["Again.", "One."]


def test_answers_of_several_models_are_runs_of_one_task() -> None:
    row = copy.deepcopy(EXAMPLES["open-webui"])
    messages = row["chat"]["history"]["messages"]
    messages["c"] = {"parentId": "a", "role": "assistant", "model": "n", "content": "README.md"}
    runs = list(formats.named("open-webui").read(row, ""))
    assert [(run.policy, len(run.steps)) for run in runs] == [("m", 2), ("n", 1)]
    assert runs[0].task == runs[1].task
    assert runs[0].steps[0].message["reasoning_content"] == "I look."


def test_what_a_tool_answered_below_its_summary_is_context_too() -> None:
    row = copy.deepcopy(EXAMPLES["open-webui"])
    row["chat"]["history"]["messages"]["b"]["content"] = (
        'I look.\n\n<details type="tool_calls" done="true" id="c" name="bash" arguments="{}">\n<summary>Done</summary>\n'
        "{&quot;a&quot;: 1}\n</details>\n\n"
        '<details type="code_interpreter" done="true" output="2">\n<summary>Analyzed</summary>\n```python\n1 + 1\n```\n</details>\nTwo.'
    )
    assert described("open-webui", row)[1:] == [
        (True, "assistant", "I look.", [{"name": "bash", "arguments": {}}]),
        (False, "tool", '{"a": 1}', []),
        (True, "assistant", None, [{"name": "code_interpreter", "arguments": {"code": "1 + 1"}}]),
        (False, "tool", "2", []),
        (True, "assistant", "Two.", []),
    ]


@pytest.mark.parametrize(
    "content",
    [
        '<details type="reasoning">' * 20_000,
        '<details type="reasoning"' * 20_000 + ">",
        f'<details type="tool_calls" {"a" * 200_000}>\n{"<summary>" * 50_000}</details>\n',
    ],
    ids=["never closed", "no end of the tag", "long attribute"],
)
def test_folded_parts_that_repeat_themselves_are_read_in_no_time(content: str) -> None:
    """Patterns that searched for an end from every start once took forty seconds for 100,000 characters of the last case."""
    row = copy.deepcopy(EXAMPLES["open-webui"])
    row["chat"]["history"]["messages"]["b"]["content"] = content
    before = time.process_time()
    assert len(list(formats.named("open-webui").read(row, ""))) == 1
    assert time.process_time() - before < 5


def test_of_a_session_without_rounds_what_was_shown_of_tools_is_context() -> None:
    row = copy.deepcopy(EXAMPLES["copilot-chat"])
    row["requests"][0]["result"] = {}
    row["requests"][0]["response"] = [
        {"value": "I look at "},
        {"kind": "inlineReference", "inlineReference": {"path": "/src"}},
        *EXAMPLES["copilot-chat"]["requests"][0]["response"],
        {"kind": "undoStop", "id": "u"},
    ]
    assert described("copilot-chat", row) == [
        (False, "user", "List the files.", []),
        (True, "assistant", "I look at /src", []),
        (False, "tool", "Running", []),
        (True, "assistant", "One.", []),
    ]


def test_a_session_that_is_kept_as_changes_is_what_they_lead_to() -> None:
    row = EXAMPLES["copilot-chat"]
    (request,) = row["requests"]
    wrong = {"message": {"text": "Undone."}, "response": [{"value": "No."}]}
    lines = [
        {"kind": 0, "v": {**row, "requests": []}},
        {"kind": 2, "k": ["requests"], "v": [{**request, "result": {}}, wrong]},
        {"kind": 1, "k": ["requests", 0, "result"], "v": request["result"]},
        {"kind": 2, "k": ["requests"], "i": 1, "v": []},
        {"kind": 1, "k": ["requests", 0, "result", "errorDetails"], "v": {"message": "Quota!"}},
        {"kind": 3, "k": ["requests", 0, "result", "errorDetails"]},
    ]
    body = "\n".join(map(json.dumps, lines)).encode()
    _, rows, format = recognize_file(io.BytesIO(body))
    (record,) = (record for row in rows for record in format.read(json.loads(row.body), "s.jsonl"))
    assert (format.name, plain(record)) == ("copilot-chat", LISTED)
    assert record.steps[-1].error is None
    reason, _ = refusal("copilot-chat", [*lines, {"kind": 1, "k": ["nothing", 3], "v": 0}])
    assert reason == 'A change is of `["nothing",3]`, which is not there.'


def ways_of(runs: Any) -> list[tuple[list[str], Any]]:
    return [([message["content"] for message in run.messages()], run.info.get("rank")) for run in runs]


def test_each_answer_of_openassistant_is_a_run_with_its_rank():
    runs = list(formats.named("oasst").read(EXAMPLES["oasst"], "trees.jsonl"))
    assert ways_of(runs) == [(["What is 2 + 3?", "5"], 0), (["What is 2 + 3?", "6", "Sure?"], 1)]
    assert runs[0].task == runs[1].task


def test_messages_of_openassistant_in_rows_are_put_together_to_their_trees():
    def row(tree: str, name: str, parent: str | None, role: str) -> bytes:
        entry = {"message_tree_id": tree, "message_id": name, "parent_id": parent, "role": role, "text": name}
        return json.dumps(entry).encode() + b"\n"

    body = row("a", "a1", None, "prompter") + row("a", "a2", "a1", "assistant") + row("a", "a3", "a1", "assistant")
    _, rows, format = recognize_file(
        io.BytesIO(body + row("b", "b1", None, "prompter") + row("b", "b2", "b1", "assistant"))
    )
    runs = [run for row in rows for run in format.read(json.loads(row.body), "rows.parquet")]
    assert ways_of(runs) == [(["a1", "a2"], None), (["a1", "a3"], None), (["b1", "b2"], None)]
    assert [run.id for run in runs] == ["a", "a/2", "b"]


def test_ways_on_which_nobody_answers_are_not_followed_without_end():
    # Each of 3,000 messages is answered by the next and by another one, all by people: 3,000 paths of 1,500 messages on average.
    def message(name: str, parent: str, role: str) -> dict[str, Any]:
        return {"message_tree_id": "t", "message_id": name, "parent_id": parent, "role": role, "text": "words"}

    chain = [message(f"m{place}", f"m{place - 1}" if place else "", "prompter") for place in range(3000)]
    ends = [message(f"e{place}", f"m{place}", "prompter") for place in range(3000)]
    with pytest.raises(BadParts, match=r"branches have more than 200,000 messages together"):
        list(formats.named("oasst").read([*chain, *ends], ""))
