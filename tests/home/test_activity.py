from datetime import timedelta

import pytest
from django.utils.timezone import now

from apps.accounts.models import Role
from apps.home import activity
from apps.home.activity import moves
from apps.jobs.models import JobState
from apps.trajectories.models import ImportBatch
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("imported", "words"), [(1, "runs.json: 1 trajectory imported"), (2, "runs.json: 2 trajectories imported")]
)
def test_an_imports_trajectories_are_counted_in_words(imported, words):
    member = factories.member(Role.RESEARCHER)
    ImportBatch.objects.create(
        workspace=member.workspace,
        filename="runs.json",
        state=JobState.DONE,
        trajectory_count=imported,
        finished_at=now(),
    )
    assert [move.sentence for move in moves(member)] == [words]


def test_what_took_long_is_listed_by_when_it_ended(monkeypatch):
    monkeypatch.setattr(activity, "EACH", 1)
    member = factories.member(Role.RESEARCHER)
    factories.run(of=member.workspace, name="long", state="finished", finished_at=now())
    factories.run(of=member.workspace, name="short", state="finished", finished_at=now() - timedelta(hours=5))
    runs = [move.sentence for move in moves(member) if move.icon == "run"]
    assert runs == ["Training run “long” finished"]
