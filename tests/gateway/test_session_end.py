"""The cost of ending a session, and calls that end after their session."""

import secrets
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.common.ids import new_id
from apps.gateway import call_storage, queries, session_trajectories, sessions, trajectory_storage
from apps.gateway.models import Call, Path, Session
from apps.gateway.queries import record_of
from apps.trajectories.models import RolloutBatch, Trajectory
from tests import factories

pytestmark = pytest.mark.django_db
ANSWER = {"role": "assistant", "content": "By the window."}


def copies(of: Call, count: int, **fields: Any) -> None:
    """Add more calls like this one, each with a different answer."""
    for number in range(count):
        of.pk, of.body_digest, of.chat_digest = new_id(), secrets.token_bytes(16), secrets.token_bytes(16)
        message = {"role": "assistant", "content": f"On shelf {number}."}
        of.reply = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        for name, value in fields.items():
            setattr(of, name, value)
        of.save(force_insert=True)


def ended(chats: int, *, branches: int = 0) -> tuple[Session, int]:
    """A session with this many chats, whose longest one branches; and the number of queries that ending it took."""
    session = factories.session(messages=[ANSWER, ANSWER, ANSWER])
    first, second, _ = Call.objects.filter(session=session).order_by("id")
    copies(Call.objects.get(pk=second.pk), branches, parent=first)
    copies(Call.objects.get(pk=first.pk), chats - 1)
    with CaptureQueriesContext(connection) as queries:
        sessions.finish_session(session=session)
    return session, len(queries)


def test_a_session_ends_with_as_many_queries_however_many_chats_it_has() -> None:
    _, few = ended(3, branches=2)
    session, many = ended(40, branches=30)
    assert many == few
    assert Path.objects.filter(session=session).count() == 70
    made = Trajectory.objects.filter(session_path__session=session)
    main = made.get(session_path__is_main=True)
    assert made.filter(parent=main, branch_step=1).count() == 30
    assert made.filter(parent=None).count() == 40


def test_long_paths_are_stored_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectory_storage, "STORED_BYTES", 1)
    session, _ = ended(5, branches=2)
    assert Path.objects.filter(session=session).count() == 7


def peak_of(act: Callable[[], object]) -> int:
    """The peak memory in bytes that Python allocated, in addition to what it held before."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_end_of_a_large_session_and_a_call_after_it_hold_few_of_its_paths_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forty chats of 24 MB once took 4 GB, in a web process or a worker."""
    monkeypatch.setattr(trajectory_storage, "STORED_BYTES", 1)
    long = [{"role": "user", "content": "x" * 500_000}]
    peaks = []
    for chats in (12, 60):
        session = factories.session(messages=[ANSWER])
        first = Call.objects.select_related("session").get(session=session)
        copies(Call.objects.get(pk=first.pk), chats, messages=long)
        ends = peak_of(lambda: sessions.finish_session(session=session))  # noqa: B023 -- called here
        first.pk, first.body_digest = new_id(), secrets.token_bytes(16)
        first.session.refresh_from_db()
        late = peak_of(lambda: call_storage.store(first, 3, is_free=False))  # noqa: B023
        assert Path.objects.filter(session=session).count() == chats + 2
        peaks.append((ends, late, peak_of(lambda: record_of(session))))  # noqa: B023
    assert all(many < few + 1_000_000 for few, many in zip(*peaks, strict=True)), peaks


def test_a_chat_that_is_too_long_becomes_no_trajectory_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (trajectory_storage, queries):
        monkeypatch.setattr(module, "MAX_CHARACTERS", 100)
    session = factories.session(messages=[ANSWER, ANSWER, ANSWER])
    sessions.finish_session(session=session)
    session.refresh_from_db()
    assert session.state == Session.State.FINISHED
    assert session.problem == "Its chat has more than 0 MiB, so it didn't become a trajectory."
    assert not Path.objects.filter(session=session).exists()
    assert len(record_of(session).steps) < 3  # as many as can be displayed


@pytest.mark.parametrize("known", [True, False])
def test_a_call_that_ends_after_its_session_was_deleted_is_kept_nowhere(known: bool) -> None:
    """known: the call comes from the process that answered it, not from a file written during an outage."""
    factories.session(messages=[ANSWER])
    calls = Call.objects.select_related("session") if known else Call.objects
    late = calls.get()
    late.pk = new_id()
    Session.objects.all().delete()
    call_storage.store(late, 3, is_free=False)
    assert not Call.objects.exists()


def with_ids(session: Session, ids: int) -> None:
    """Give each call this many token ids, like a server that returns the whole prompt each time."""
    body = bytes(4 * ids)
    Call.objects.filter(session=session).update(
        join="messages", untrainable="", prompt_ids=body, sampled_ids=body[:4], logprobs=bytes(4)
    )


def test_a_path_keeps_its_text_and_as_many_token_ids_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred calls with two million ids each once took 7 GB, in a web process."""
    monkeypatch.setattr(session_trajectories, "MAX_IDS", 250)
    session = factories.session(messages=[ANSWER, ANSWER, ANSWER])
    with_ids(session, 100)
    for steps in ([step.info for step in record_of(session).steps], _ended_steps(session)):
        assert [len(step.get("context_ids", ())) for step in steps] == [100, 100, 0]
        assert steps[2]["untrainable"] == session_trajectories.TOO_MANY_IDS
    assert not Call.objects.exclude(untrainable="").exists()  # the trajectory's calls, not the stored ones


def _ended_steps(session: Session) -> list[Any]:
    sessions.finish_session(session=session)
    made = Trajectory.objects.get(session_path__session=session)
    return [step.info for step in made.steps.order_by("index")]


def test_token_ids_count_among_what_shorter_paths_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each branch stores the ids of its beginning again: for a thousand branches, gigabytes."""
    monkeypatch.setattr(session_trajectories, "MAX_CHARACTERS", 10_000)
    session = factories.session(messages=[ANSWER, ANSWER, ANSWER])
    first, second, _ = Call.objects.filter(session=session).order_by("id")
    copies(Call.objects.get(pk=second.pk), 4, parent=first)
    with_ids(session, 200)
    sessions.finish_session(session=session)
    session.refresh_from_db()
    assert Path.objects.filter(session=session).count() == 3
    assert session.problem == "Its chat branches too often: 2 of its shorter paths didn't become trajectories."


def test_calls_that_form_a_circle_as_in_an_edited_archive_are_read_once() -> None:
    session = factories.session(messages=[ANSWER, ANSWER, ANSWER])
    first, second, last = Call.objects.filter(session=session).order_by("id")
    Call.objects.filter(pk=first.pk).update(parent=second)
    assert [step.message for step in record_of(session).steps] == [ANSWER, ANSWER, ANSWER]
    Call.objects.filter(pk=first.pk).update(parent=last)
    assert record_of(session).steps == []  # no call is the last one


def late(session: Session, parent: Call | None, text: str) -> Call:
    """Store a call that comes from a file after the session has ended."""
    call = factories.call(of=session, message={"role": "assistant", "content": text})
    Call.objects.filter(pk=call.pk).delete()
    call.parent, call.body_digest = parent, secrets.token_bytes(16)
    call_storage.store(call, 3, is_free=False)
    return call


def paths(session: Session) -> list[tuple[int, bool, bool | None, float | None]]:
    """The steps, whether it's the main one, and the outcome of each of its trajectories."""
    stored = Trajectory.objects.filter(session_path__session=session).order_by("-session_path__is_main", "step_count")
    assert Trajectory.objects.filter(source="gateway").count() == stored.count()
    return list(stored.values_list("step_count", "session_path__is_main", "success", "reward"))


def test_late_calls_lengthen_the_path_that_has_the_outcome() -> None:
    session = factories.session(messages=[ANSWER])
    sessions.finish_session(session=session, success=True, reward=1.0)
    path = Path.objects.get()
    before = path.leaf
    for text in ("On the table.", "Under it."):
        before = late(session, before, text)
    assert paths(session) == [(3, True, True, 1.0)]
    changed = Path.objects.get()
    assert (changed.pk, changed.trajectory_id, changed.leaf_id) == (path.pk, path.trajectory_id, before.pk)
    steps = [step.message["content"] for step in changed.trajectory.steps.order_by("index")]
    assert steps == ["By the window.", "On the table.", "Under it."]
    assert changed.trajectory.policy_id == session.policy_id


def test_late_calls_that_make_another_path_the_longest_move_the_outcome_there() -> None:
    session = factories.session(messages=[ANSWER])
    sessions.finish_session(session=session, success=True, reward=1.0)
    first = Path.objects.get().leaf
    second = late(session, late(session, None, "A sub-agent's."), "And another.")
    assert paths(session) == [(2, True, True, 1.0), (1, False, None, None)]
    third = late(session, late(session, first, "On the table."), "Under it.")
    assert paths(session) == [(3, True, True, 1.0), (2, False, None, None)]
    assert set(Path.objects.values_list("leaf", flat=True)) == {second.pk, third.pk}


def test_late_branches_know_their_trunk_however_often_the_longest_path_changes() -> None:
    session = factories.session(messages=[ANSWER, ANSWER])
    sessions.finish_session(session=session)
    root, leaf = Call.objects.order_by("id")
    other = late(session, late(session, root, "On the table."), "Under it.")
    late(session, late(session, leaf, "No."), "Yes.")
    main = Trajectory.objects.get(session_path__is_main=True)
    assert (main.parent, main.step_count) == (None, 4)
    branch = Trajectory.objects.get(session_path__leaf=other)
    assert (branch.parent, branch.branch_step, branch.step_count) == (main, 1, 3)


@pytest.mark.parametrize("is_root", [True, False])
def test_a_trajectory_that_something_depends_on_keeps_its_content_and_the_outcome(is_root: bool) -> None:
    session = factories.session(messages=[ANSWER])
    sessions.finish_session(session=session, success=True)
    path = Path.objects.get()
    factories.item(of=factories.queue(of=session.workspace), a=path.trajectory)
    before = None if is_root else path.leaf
    for text in ("On the table.", "Under it.", "Found."):
        before = late(session, before, text)
    assert paths(session) == [(1, True, True, None), (3 if is_root else 4, False, None, None)]


def test_the_trajectory_of_a_batch_of_rollouts_keeps_the_outcome() -> None:
    home = factories.workspace()
    batch = RolloutBatch.objects.create(workspace=home, policy=factories.policy(of=home), environment="office")
    session = factories.session(of=home, messages=[ANSWER], rollout_batch=batch)
    sessions.finish_session(session=session, reward=1.0)
    late(session, Path.objects.get().leaf, "On the table.")
    before = None
    for text in ("A sub-agent's.", "And another.", "And a third."):
        before = late(session, before, text)
    assert paths(session) == [(2, True, None, 1.0), (3, False, None, None)]
    assert Trajectory.objects.get(rollout_batch=batch).step_count == 2
