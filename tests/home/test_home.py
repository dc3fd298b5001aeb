import pytest
from django.test import Client

from apps.accounts.models import Role
from tests import factories

pytestmark = pytest.mark.django_db


def home_of(member):
    client = Client()
    client.force_login(member.user)
    return client.get("/")


def test_an_annotator_sees_queues_and_nothing_else():
    member = factories.member(Role.ANNOTATOR)
    factories.queue(of=member.workspace, name="Office pairs", item_count=3)
    factories.run(of=member.workspace, name="secret-run")
    page = home_of(member).content.decode()
    assert "Office pairs" in page
    assert "3 left for you" in page
    assert "secret-run" not in page
    assert "Trajectories" not in page


def test_an_annotator_without_queues_is_told_so():
    assert "Nothing is waiting for you" in home_of(factories.member(Role.ANNOTATOR)).content.decode()


def test_a_researcher_sees_the_loop_and_what_to_do():
    page = home_of(factories.member(Role.RESEARCHER)).content.decode()
    for name in ("Trajectories", "Judgments", "Versions", "Training runs", "Policies", "Experiments"):
        assert f'<span class="name">{name}</span>' in page
    for offer in ("Import your trajectories", "Connect your agent", "Try labeling"):
        assert f"<h3>{offer}</h3>" in page
