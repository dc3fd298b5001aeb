"""Episodes of training runs for runners: leased by one at a time, leased again when lost, and answered once."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from apps.accounts.models import Membership, Role
from apps.gateway import sessions
from apps.gateway.models import Session
from apps.policies.models import Policy
from apps.training import episodes
from apps.training.models import Episode, EpisodeBatch, Run
from apps.training.plan import plan_run
from apps.training.queries import episodes_of_runners
from apps.training.refusals import SettingsRefused
from contract.episodes import Batch, WantedEpisode
from contract.trajectory import Task
from tests import factories

ADDRESS = "http://127.0.0.1:1/secret/v1"


@pytest.fixture
def researcher(db: None) -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def run(researcher: Membership) -> Run:
    return factories.run(
        of=researcher.workspace,
        name="talks",
        algorithm=Run.Algorithm.GRPO,
        state=Run.State.RUNNING,
        config={"played_by": "runners", "tasks": {"environment": "talk"}},
    )


def batch_of(count: int, *, moment: str = "step 1", environment: str = "talk") -> Batch:
    tasks = [Task(f"t{number}", f"Say {number}.", environment) for number in range(count)]
    wanted = tuple(WantedEpisode(str(uuid4()), task, number) for number, task in enumerate(tasks))
    return Batch(str(uuid4()), moment, ADDRESS, lease_seconds=60, most_calls=7, episodes=wanted)


def leased(member: Membership, **wanted: Any) -> episodes.Lease:
    lease = episodes.lease(member=member, runner="r1", **wanted)
    assert lease is not None
    return lease


def test_an_episode_is_leased_with_a_session_of_the_weights_in_training(researcher: Membership, run: Run) -> None:
    episodes.open_batch(run, wanted := batch_of(1))
    episodes.open_batch(run, wanted)
    lease = leased(researcher, environment="talk", run_id=run.pk)
    session = lease.opened.session
    assert (session.policy, session.training_address) == (None, ADDRESS)
    assert session.policy_name == "talks, step 1"
    assert (session.max_calls, session.idle_seconds, session.agent) == (7, 60, "r1")
    assert lease.episode.task["instruction"] == "Say 0."
    assert episodes.lease(member=researcher, runner="r2") is None


def test_only_a_lease_is_not_waited_for_until_it_is_on_disk(researcher: Membership, run: Run) -> None:
    """A lost lease is leased again, but an outcome must not be lost."""
    unflushed = "SET LOCAL synchronous_commit = off"
    episodes.open_batch(run, batch_of(1))
    with CaptureQueriesContext(connection) as leasing:
        lease = leased(researcher)
    with CaptureQueriesContext(connection) as finishing:
        sessions.finish_session(session=lease.opened.session, success=True)
    assert [query["sql"] for query in leasing].count(unflushed) == 1
    assert unflushed not in [query["sql"] for query in finishing]


def test_only_what_was_asked_for_and_may_be_seen_is_leased(researcher: Membership, run: Run) -> None:
    episodes.open_batch(run, batch_of(1))
    assert episodes.lease(member=researcher, runner="r", environment="other") is None
    assert episodes.lease(member=researcher, runner="r", run_id=uuid4()) is None
    assert episodes.lease(member=factories.member(Role.OWNER), runner="r") is None
    Run.objects.filter(pk=run.pk).update(state=Run.State.CANCELLING)
    assert episodes.lease(member=researcher, runner="r") is None


def test_a_lost_episode_is_given_out_again_three_times_at_most(researcher: Membership, run: Run) -> None:
    episodes.open_batch(run, wanted := batch_of(1))
    first = leased(researcher)
    Session.objects.update(expires_at=now() - timedelta(seconds=1))
    second = leased(researcher)
    assert second.episode.pk == first.episode.pk
    with pytest.raises(sessions.SessionOver):
        sessions.finish_session(session=first.opened.session, reward=1.0)
    sessions.abandon_session(session=second.opened.session, problem="KeyError: 'lamp'")
    third = leased(researcher)
    sessions.abandon_session(session=third.opened.session)
    assert list(episodes.ended_episodes(EpisodeBatch.objects.get().pk)) == []
    assert episodes.lease(member=researcher, runner="r4") is None
    [(episode, rollout)] = episodes.ended_episodes(EpisodeBatch.objects.get().pk)
    assert (str(episode.pk), rollout, episode.losses) == (wanted.episodes[0].id, None, 3)


def test_a_renewed_lease_is_kept(researcher: Membership, run: Run) -> None:
    episodes.open_batch(run, batch_of(1))
    lease = leased(researcher)
    Session.objects.update(expires_at=now() - timedelta(seconds=1))
    sessions.renew_session(session=lease.opened.session)
    assert episodes.lease(member=researcher, runner="r2") is None


def test_an_end_is_told_once_and_is_no_trajectory_of_the_workspace(researcher: Membership, run: Run) -> None:
    episodes.open_batch(run, batch_of(2))
    lease = leased(researcher)
    for _ in range(2):
        sessions.finish_session(session=lease.opened.session, success=True)
    [(episode, rollout)] = episodes.ended_episodes(EpisodeBatch.objects.get().pk)
    assert rollout is None  # it made no calls
    episodes.mark_answered(episode)
    assert list(episodes.ended_episodes(EpisodeBatch.objects.get().pk)) == []
    assert not lease.opened.session.paths.exists()


def test_a_next_batch_ends_the_one_before_and_forgets_older_ones(researcher: Membership, run: Run) -> None:
    for moment in ("step 1", "step 2", "step 3"):
        episodes.open_batch(run, batch_of(1, moment=moment))
        leased(researcher)
    assert list(EpisodeBatch.objects.order_by("opened_at").values_list("moment", flat=True)) == ["step 2", "step 3"]
    assert sorted(Session.objects.values_list("state", flat=True)) == ["abandoned", "open"]
    episodes.close_batches(run)
    assert EpisodeBatch.objects.filter(closed_at=None).count() == 0
    assert Session.objects.open().count() == 0


def test_sessions_of_lost_leases_are_forgotten_with_their_batch(researcher: Membership, run: Run) -> None:
    for number in range(3):
        episodes.open_batch(run, replace(batch_of(1), address=f"{ADDRESS}/{number}"))
        sessions.abandon_session(session=leased(researcher).opened.session)
        leased(researcher)
    addresses = Session.objects.order_by("pk").values_list("training_address", flat=True)
    assert list(addresses) == [f"{ADDRESS}/1"] * 2 + [f"{ADDRESS}/2"] * 2


def test_the_page_says_who_plays(researcher: Membership, run: Run) -> None:
    episodes.open_batch(run, batch_of(3))
    leased(researcher)
    done = leased(researcher)
    sessions.finish_session(session=done.opened.session, reward=1.0)
    episodes.mark_answered(done.episode)
    shown = episodes_of_runners(run)
    assert shown is not None
    assert (shown.moment, shown.total, shown.done, shown.waiting) == ("step 1", 3, 1, 1)
    assert shown.playing == [("r1", 1)]
    assert shown.command.endswith("--environment talk")


@pytest.mark.django_db(transaction=True)
def test_many_runners_at_once_get_each_episode_once() -> None:
    researcher = factories.member(Role.RESEARCHER)
    run = factories.run(of=researcher.workspace, algorithm=Run.Algorithm.GRPO, state=Run.State.RUNNING)
    episodes.open_batch(run, batch_of(24))
    got: list[str] = []

    def play() -> None:
        try:
            while (lease := episodes.lease(member=researcher, runner="r")) is not None:
                got.append(str(lease.episode.pk))
        finally:
            connection.close()

    threads = [threading.Thread(target=play) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == len(set(got)) == 24
    assert Episode.objects.filter(session__isnull=False).count() == 24


def test_over_rest(researcher: Membership, run: Run, client: Client) -> None:
    episodes.open_batch(run, batch_of(1))
    client.force_login(researcher.user)
    body = {"runner": "r1", "environment": "talk"}
    answer = client.post("/api/v1/episodes/lease", body, content_type="application/json")
    assert answer.status_code == 200
    reply = answer.json()
    assert reply["run_name"] == "talks"
    assert reply["base_url"].endswith("/gateway/v1")
    assert client.post("/api/v1/episodes/lease", body, content_type="application/json").status_code == 204
    session = f"/api/v1/sessions/{reply['session']}"
    assert client.post(f"{session}/renew", content_type="application/json").json()["policy_name"] == "talks, step 1"
    assert (
        client.post(f"{session}/abandon", {"problem": "It broke."}, content_type="application/json").json()["problem"]
        == "It broke."
    )
    assert client.post(f"{session}/abandon", content_type="application/json").status_code == 200
    assert client.post(f"{session}/renew", content_type="application/json").status_code == 409
    assert client.post(f"{session}/finish", {"success": True}, content_type="application/json").status_code == 409
    assert client.get("/api/v1/sessions").json()["results"] == []


def grpo(member: Membership, **changes: Any) -> None:
    base = factories.policy(of=member.workspace, kind=Policy.Kind.MODEL, location="example/base")
    plan_run(member=member, algorithm="grpo", version=None, base=base, changes=changes)


def test_a_plan_needs_enough_tasks_of_an_environment_that_only_runners_know(researcher: Membership) -> None:
    for number in range(2):
        factories.task(of=researcher.workspace, environment="talk", key=f"t{number}")

    def problem(**changes: Any) -> str:
        with pytest.raises(SettingsRefused) as refusal:
            grpo(researcher, **changes)
        return refusal.value.problems[0].message

    runners = {"played_by": "runners"}
    assert problem(**runners, tasks={"environment": "talk"}).startswith("The workspace has 2 training tasks of 'talk'")
    assert problem(**runners, tasks={"environment": "nowhere"}) == "Got 'nowhere', expected 'talk'."
    assert problem(tasks={"environment": "talk"}).endswith("It is one of your own: set played_by to runners.")
    assert problem(held_out_file="x.jsonl") == "Can't be set: files are local to the worker."
    grpo(
        researcher,
        **runners,
        tasks={"environment": "talk"},
        samples=4,
        optimizer={"batch_size": 8, "gradient_accumulation": 1},
    )
