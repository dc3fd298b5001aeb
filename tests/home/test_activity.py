import pytest
from django.utils.timezone import now

from apps.accounts.models import Role
from apps.home.activity import moves
from apps.jobs.models import JobState
from apps.trajectories.models import ImportBatch
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("brought", "words"), [(1, "runs.json brought 1 trajectory"), (2, "runs.json brought 2 trajectories")]
)
def test_what_an_import_brought_is_counted_in_words(brought, words):
    member = factories.member(Role.RESEARCHER)
    ImportBatch.objects.create(
        workspace=member.workspace,
        filename="runs.json",
        state=JobState.DONE,
        trajectory_count=brought,
        finished_at=now(),
    )
    assert [move.sentence for move in moves(member)] == [words]
