"""The pages for a queue's settings, known answers, and annotators, and what the desk reveals of them."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, Workspace
from apps.annotation.models import Assignment, Desk, Item
from tests import factories
from tests.annotation import builders
from tests.annotation.builders import judge, known

pytestmark = pytest.mark.django_db


@pytest.fixture
def workspace() -> Workspace:
    return factories.workspace()


@pytest.fixture
def researcher(workspace: Workspace, client: Client) -> Client:
    client.force_login(factories.member(Role.RESEARCHER, of=workspace).user)
    return client


def test_the_settings_page_changes_settings_and_says_what_is_wrong(researcher, workspace):
    queue = builders.queue(of=workspace, steps=0)
    address = reverse("annotation:settings", args=[queue.pk])
    form = {
        "name": "New name",
        "who": "all",
        "gold_percent": 10,
        "lease_minutes": 5,
        "ends_at": "2030-01-31T12:00",
        "overlap": 1,
    }
    assert researcher.post(address, form).status_code == 302
    queue.refresh_from_db()
    assert (queue.name, queue.gold_percent, queue.lease_seconds, queue.ends_at.year) == ("New name", 10, 300, 2030)
    wrong = researcher.post(address, {**form, "who": "named"})
    assert wrong.status_code == 422
    assert "Choose at least one person" in wrong.content.decode()
    assert "2030-01-31T12:00" in researcher.get(address).content.decode()


def test_an_item_is_made_gold_on_its_page(researcher, workspace):
    queue = builders.queue(of=workspace, steps=0)
    item = queue.items.get()
    page = reverse("annotation:queue_item", args=[queue.pk, item.pk])
    assert "Right answer" in researcher.get(page).content.decode()
    form = {"purpose": "gold", "answer_given": "-1", "because": "It never paid."}
    assert researcher.post(reverse("annotation:known", args=[queue.pk, item.pk]), form).url == page
    item.refresh_from_db()
    assert (item.purpose, item.known) == ("gold", {"answer": -1, "because": "It never paid."})
    assert "gold" in researcher.get(reverse("annotation:items", args=[queue.pk]), {"show": "known"}).content.decode()


def test_a_person_is_paused_and_let_go_on_from_their_page(researcher, workspace):
    queue = builders.queue(of=workspace, steps=0)
    who = builders.rule(of=workspace)
    judge(queue, who, 1)
    researcher.post(reverse("annotation:pause_annotator", args=[queue.pk, who.pk]), {"reason": "A question"})
    page = researcher.get(reverse("annotation:person", args=[queue.pk, who.pk])).content.decode()
    assert "Resume" in page
    researcher.post(reverse("annotation:resume_annotator", args=[queue.pk, who.pk]))
    assert Desk.objects.get().paused_at is None
    answer = researcher.post(reverse("annotation:retrain_annotator", args=[queue.pk, who.pk]), follow=True)
    assert "no onboarding items" in answer.content.decode()


def test_only_researchers_of_this_workspace_steer(workspace, client):
    queue = builders.queue(of=workspace, steps=0)
    who = builders.rule(of=workspace)
    item = queue.items.get()
    gets = [reverse("annotation:settings", args=[queue.pk])]
    posts = [
        reverse("annotation:draw_gold", args=[queue.pk]),
        reverse("annotation:known", args=[queue.pk, item.pk]),
        reverse("annotation:pause_annotator", args=[queue.pk, who.pk]),
    ]
    for member in (factories.member(Role.REVIEWER, of=workspace), factories.member(Role.OWNER)):
        client.force_login(member.user)
        assert {client.get(address).status_code for address in gets} == {404}
        assert {client.post(address).status_code for address in posts} == {404}
    assert client.get(reverse("annotation:queue_item", args=[queue.pk, item.pk])).status_code == 404


def test_the_pages_of_an_experiments_queue_offer_no_known_answers(researcher, workspace):
    queue = builders.queue(of=workspace, steps=0, selection={"experiment": "1"})
    item = queue.items.get()
    gold = reverse("annotation:draw_gold", args=[queue.pk])
    one, known_form = (reverse(f"annotation:{name}", args=[queue.pk, item.pk]) for name in ("queue_item", "known"))
    assert gold not in researcher.get(reverse("annotation:settings", args=[queue.pk])).content.decode()
    assert known_form not in researcher.get(one).content.decode()
    form = {"purpose": "gold", "answer_given": "1"}
    assert "counts in its verdict" in researcher.post(known_form, form, follow=True).content.decode()
    assert "counts in its verdict" in researcher.post(gold, {"count": 1}, follow=True).content.decode()
    assert queue.items.get().purpose == "work"


def test_the_desk_tells_a_newcomer_and_nobody_else(workspace, client):
    queue = builders.queue(of=workspace, items=2)
    known(queue, Item.Purpose.ONBOARDING)
    client.force_login(factories.member(Role.ANNOTATOR, of=workspace).user)
    client.get(reverse("annotation:desk", args=[queue.pk]))
    held = Assignment.objects.get()
    wrong = "-2" if held.a_is_left else "2"
    json = {"Accept": "application/json"}
    reply = client.post(reverse("annotation:judge", args=[held.pk]), {"answer": wrong}, headers=json).json()
    side = "left" if held.a_is_left else "right"
    assert reply == {"taught": f"This was an onboarding item with a different answer: {side} is better. See rule 2."}
    client.get(reverse("annotation:desk", args=[queue.pk]))
    work = Assignment.objects.get(state="open")
    assert client.post(reverse("annotation:judge", args=[work.pk]), {"answer": "2"}, headers=json).json() == {}
