"""Champions: promotion and rollback."""

import pytest

from apps.accounts.models import AuditEntry, Role
from apps.policies.promotions import AlreadyChampion, NothingToRollBackTo, champion, promote, roll_back
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner():
    return factories.member(Role.OWNER)


def policies(owner, *names):
    return [factories.policy(of=owner.workspace, name=name) for name in names]


def test_promotion_records_who_why_and_what_it_replaced(owner):
    first, second = policies(owner, "first", "second")
    promote(policy=first, environment="office", by=owner.user, reason="the only one")
    promotion = promote(policy=second, environment="office", by=owner.user, reason="won 12 to 3", evidence={"wins": 12})
    assert champion(workspace=owner.workspace, environment="office") == second
    assert (promotion.previous, promotion.by, promotion.reason, promotion.evidence) == (
        first,
        owner.user,
        "won 12 to 3",
        {"wins": 12},
    )
    assert AuditEntry.objects.visible_to(owner).filter(action="promoted").count() == 2


def test_a_second_click_promotes_once(owner):
    (only,) = policies(owner, "only")
    promote(policy=only, environment="office", by=owner.user, reason="first click")
    with pytest.raises(AlreadyChampion):
        promote(policy=only, environment="office", by=owner.user, reason="second click")


def test_environments_have_champions_of_their_own(owner):
    first, second = policies(owner, "first", "second")
    promote(policy=first, environment="office", by=owner.user, reason="-")
    promote(policy=second, environment="search", by=owner.user, reason="-")
    assert champion(workspace=owner.workspace, environment="office") == first
    assert champion(workspace=owner.workspace, environment="search") == second


def test_rolling_back_twice_goes_back_two_champions(owner):
    for name in ("first", "second", "third"):
        promote(policy=policies(owner, name)[0], environment="office", by=owner.user, reason="-")
    rolled = roll_back(workspace=owner.workspace, environment="office", by=owner.user, reason="regression")
    assert (rolled.policy.name, rolled.previous.name, rolled.is_rollback) == ("second", "third", True)
    assert (
        roll_back(workspace=owner.workspace, environment="office", by=owner.user, reason="again").policy.name == "first"
    )
    with pytest.raises(NothingToRollBackTo):
        roll_back(workspace=owner.workspace, environment="office", by=owner.user, reason="too far")


def test_a_promotion_after_a_rollback_starts_a_new_branch(owner):
    first, second, third = policies(owner, "first", "second", "third")
    promote(policy=first, environment="office", by=owner.user, reason="-")
    promote(policy=second, environment="office", by=owner.user, reason="-")
    roll_back(workspace=owner.workspace, environment="office", by=owner.user, reason="-")
    promote(policy=third, environment="office", by=owner.user, reason="-")
    assert roll_back(workspace=owner.workspace, environment="office", by=owner.user, reason="-").policy == first


def test_another_workspace_has_no_part_in_it(owner):
    (mine,) = policies(owner, "mine")
    promote(policy=mine, environment="office", by=owner.user, reason="-")
    elsewhere = factories.member(Role.OWNER)
    assert champion(workspace=elsewhere.workspace, environment="office") is None
    with pytest.raises(NothingToRollBackTo):
        roll_back(workspace=elsewhere.workspace, environment="office", by=elsewhere.user, reason="not mine")


def test_a_policy_with_the_longest_name_can_be_promoted(owner):
    policy = factories.policy(of=owner.workspace, name="p" * 200)
    promote(policy=policy, environment="office", by=owner.user, reason="Better.")
    assert champion(workspace=owner.workspace, environment="office") == policy
