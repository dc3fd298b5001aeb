"""Many annotators in one queue over HTTP: a smaller version of the load test in `bench`."""

import pytest

from apps.accounts.models import Role
from apps.annotation.models import Preference, Queue
from bench import hammer
from tests import factories
from tests.annotation import builders
from tests.live import LiveStack


@pytest.mark.django_db(transaction=True)
def test_a_crowd_that_skips_undoes_and_submits_twice_loses_nothing_and_judges_nothing_twice(
    live_stack: LiveStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hammer, "WALKS_AWAY", 0.0)  # a lease lasts half a minute; its expiry is tested elsewhere
    queue = builders.queue(items=15, overlap=3, steps=0)
    members = [factories.member(Role.ANNOTATOR, of=queue.workspace) for _ in range(12)]
    tally = hammer.hammer(live_stack.url, members, queue, seed=1)
    audit = hammer.audit_of(Queue.objects.get(), tally)
    assert audit == hammer.Audit(
        judgments=45, wrong_items=0, twice=0, lost=0, unasked=0, own_again=0, different_in_tabs=0, came_back=0
    )
    assert len(tally.acknowledged) == 45
    assert tally.second_tabs > 0
    assert Preference.objects.exclude(retracted_at=None).exists()  # somebody undid
