import pytest
from django.utils.timezone import now

from apps.accounts.models import Role
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
