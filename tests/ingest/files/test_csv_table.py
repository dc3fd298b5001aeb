"""Text tables: rows are records, whatever the delimiter."""

import csv
import gzip
import io
import json

import pytest

from apps.ingest.files import csv_table
from apps.ingest.files.source import open_source
from apps.jobs.models import JobState
from apps.trajectories.models import Step, Trajectory
from tests.ingest.files.test_inspect_archive import archive
from tests.trajectories.uploads import counts, imported, refused, rows_of


def table(*rows: list[str], delimiter: str = ",") -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter).writerows(rows)
    return out.getvalue().encode()


ROWS = [
    ["prompt", "response", "score"],
    ["Say “hi”.\nTwice; or, thrice", 'He said "hi",\thi', "1"],
    ["Again", "", "0.5"],
]
READ = [{"prompt": ROWS[1][0], "response": ROWS[1][1], "score": "1"}, {"prompt": "Again", "score": "0.5"}]


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_cells_come_under_the_names_of_the_first_row(delimiter: str) -> None:
    body = table(*ROWS, delimiter=delimiter)
    assert rows_of(body) == READ
    assert rows_of(b"\xef\xbb\xbf" + body.replace(b"\r\n", b"\n")) == READ
    assert rows_of(gzip.compress(body)) == READ


def test_a_row_may_be_longer_than_what_is_looked_at_first() -> None:
    long = "word " * 400_000
    assert rows_of(table(["prompt", "response"], [long, "ok"], ["a", "b"]))[0] == {"prompt": long, "response": "ok"}


@pytest.mark.parametrize(
    "body",
    [
        b"hello, world\n",
        b"a,b\n",
        b"Dear all,\nthe run failed, again, and again.\n",
        b"a,a\n1,2\n",
        b"1,2\n3,4\n",
        b"x\n1\n2\n",
    ],
)
def test_other_text_is_no_table(body: bytes) -> None:
    assert "a table with names in its first row" in refused(body)


def test_a_table_that_breaks_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    body = table(["prompt", "response"], ["a", "b"], ["c", "d"])
    assert "is not UTF-8" in refused(body + b"caf\xe9,x\r\n" * 3)
    limit = csv.field_size_limit(1000)
    try:
        assert "breaks at line" in refused(body + b'"' + b"never closed\n" * 1000)
    finally:
        csv.field_size_limit(limit)
    assert limit == csv_table.MAX_CELL_BYTES
    assert "Unpacks to more than" in refused(table(["a", "b"], *[["x" * 1000, "y"]] * 5000), most=1 << 20)


def test_rows_are_where_they_start_in_the_file_and_cells_beyond_the_columns_are_a_problem() -> None:
    body = b',prompt,response\r\n0,a,"b\nb"\r\n\r\n1,"c, c",d,\r\n2,e, e,f\r\n3,g\r\n'  # pandas numbers the rows
    rows = list(open_source(io.BytesIO(body), most_bytes=1 << 20).rows(limit=1 << 20))
    assert [(row.position, row.line, row.problem[:14]) for row in rows] == [
        (0, 2, ""),
        (1, 5, ""),
        (2, 6, "It has 4 cells"),
        (3, 7, ""),
    ]
    assert [json.loads(row.body) for row in rows[:2]] == [
        {"prompt": "a", "response": "b\nb"},
        {"prompt": "c, c", "response": "d"},
    ]


def test_what_never_ends_is_refused_where_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    body = table(["prompt", "response"], ["a", "b"])
    assert "never closed, in the row at line 3." in refused(body + b'c,"d\r\ne,f\r\n')
    assert "not UTF-8 at line 4." in refused(body + b"c,d\r\ncaf\xe9,x\r\n")
    monkeypatch.setattr(csv_table, "MAX_CELL_BYTES", 1000)
    assert "breaks at line 3" in refused(body + b"x," * 1000)
    monkeypatch.setattr(csv_table, "MAX_ROW_BYTES", 2000)
    assert rows_of(body * 500)
    assert "row is longer than" in refused(body + b'"x\n",' * 1000)


def test_names_that_differ_in_spaces_only_are_no_names_of_columns() -> None:
    assert "is not JSON" in refused(b"prompt, prompt,response\na,b,c\n")


@pytest.mark.django_db
def test_a_table_of_answers_and_one_of_chats_come_in() -> None:
    answers = imported(
        table(["prompt", "response", "score", "model"], ["Why?", "Because.", "0.5", "small"]), name="a.csv"
    )
    assert (answers.state, answers.format, *counts(answers)) == (JobState.DONE, "prompt-response", 1, 1, 0, 0)
    run = Trajectory.objects.get()
    assert (run.reward, run.policy.name, run.task.instruction) == (0.5, "small", "Why?")
    chat = json.dumps([{"role": "user", "content": "Add, then stop"}, {"role": "assistant", "content": "3"}])
    chats = imported(archive({"runs/chats.tsv": table(["messages", "success"], [chat, "True"], delimiter="\t")}))
    assert (chats.state, chats.format, chats.trajectory_count) == (JobState.DONE, "openai-chat", 1)
    assert Step.objects.filter(trajectory__success=True).get().message["content"] == "3"


CHAT = [
    {"role": "user", "content": 'Say “it\'s” or "}\\n {"'},
    {"role": "assistant", "content": "it's", "tool_calls": None},
]
PRINTED = {
    "json": json.dumps(CHAT),
    "python": repr(CHAT),
    "numpy": "[" + "\n ".join(map(repr, CHAT)) + "]",
    "array": "array([" + ",\n       ".join(map(repr, CHAT)) + "], dtype=object)",
}


@pytest.mark.parametrize("spelling", ["json", "python", "numpy"])
@pytest.mark.parametrize("column", ["messages", "prompt", "chosen"])
def test_a_chat_in_a_cell_is_one_however_it_is_printed(column: str, spelling: str) -> None:
    (row,) = rows_of(table(["id", column], ["1", PRINTED[spelling]]))
    assert row == {"id": "1", column: CHAT}


def test_arrays_within_objects_are_lists() -> None:
    cell = "{'chat': " + PRINTED["array"] + ", 'scores': array([1, 2]), 'said': \"array([1], dtype=object)\"}"
    (row,) = rows_of(table(["id", "run"], ["1", cell]))
    assert row["run"] == {"chat": CHAT, "scores": [1, 2], "said": "array([1], dtype=object)"}


def test_texts_that_numpy_prints_without_commas_stay_apart() -> None:
    (row,) = rows_of(table(["id", "models", "tags"], ["1", "['a' \"b's\"\n 'c  d']", "[['a' 'b']\n ['c']]"]))
    assert row == {"id": "1", "models": ["a", "b's", "c  d"], "tags": [["a", "b"], ["c"]]}


@pytest.mark.parametrize(
    "cell", ['{"name": "look", "arguments": {}}', "['a', 'b']", "[1] says so", "{not json}", "[__import__('os')]"]
)
def test_what_may_be_an_answer_stays_text(cell: str) -> None:
    (row,) = rows_of(table(["prompt", "response"], ["Why?", cell]))
    assert row == {"prompt": "Why?", "response": cell}


def test_what_is_nested_too_deeply_stays_text() -> None:
    deep = "[" * 260 + "]" * 260
    (row,) = rows_of(table(["id", "run"], ["1", deep]))
    assert row == {"id": "1", "run": deep}


def test_a_string_that_is_never_closed_takes_no_time() -> None:
    endless = "['" + "\\'" * 400_000
    (row,) = rows_of(table(["id", "run"], ["1", endless]))
    assert row == {"id": "1", "run": endless}


@pytest.mark.django_db
def test_a_table_of_labeled_steps_comes_in() -> None:
    question = {"problem": "1 + 1?", "ground_truth_answer": "2"}
    steps = [{"completions": [{"text": "It is 2.", "rating": 1}], "chosen_completion": 0, "human_completion": None}]
    label = {"steps": steps, "finish_reason": "solution"}
    batch = imported(table(["labeler", "question", "label"], ["a", json.dumps(question), repr(label)]), name="a.csv")
    assert (batch.state, batch.format, *counts(batch)) == (JobState.DONE, "labeled-steps", 1, 1, 0, 0)
    assert Trajectory.objects.get().task.instruction == "1 + 1?"
    assert Step.objects.get().message["content"] == "It is 2."
