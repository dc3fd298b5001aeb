import pytest
from django.urls import resolve, reverse

from apps.accounts.models import Membership, Role
from apps.accounts.navigation import NAV_ITEMS, links_for


def names(role, path="/"):
    return [link.item.name for link in links_for(Membership(role=role), resolve(path))]


def test_an_annotator_is_led_to_queues_and_nothing_else():
    assert set(names(Role.ANNOTATOR)) <= {"Home", "Queues"}


def test_each_role_sees_what_the_ones_before_it_see():
    for lower, higher in zip(list(Role), list(Role)[1:], strict=False):
        assert set(names(lower)) <= set(names(higher))


def test_a_stranger_is_led_nowhere():
    assert links_for(None, None) == []


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/", "Home"),
        ("/settings/audit/", "Settings"),
        ("/profile/", "Settings"),
        ("/runs/new/", "Training"),
        (reverse("annotation:label_all"), "Trajectories"),
        ("/rollouts/new/", "Policies"),  # according to its breadcrumbs
        ("/rollouts/new/runners/", "Policies"),
        ("/rollouts/01a206e3-f1b5-72cf-a0cc-637e83a9f452/", "Policies"),
    ],
)
def test_the_place_of_a_page_is_marked(path, place):
    links = links_for(Membership(role=Role.OWNER), resolve(path))
    assert [link.item.name for link in links if link.is_current] == [place]


def test_no_two_places_share_a_key():
    keys = [place.keys for place in NAV_ITEMS]
    assert len(set(keys)) == len(keys)
