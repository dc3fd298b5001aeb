"""Desk layouts: ownership, precedence, saving and undo, and that none changes what is judged."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.annotation.desk import layouts
from apps.annotation.desk.layouts import SETTINGS, LayoutRefused, arrangement_of
from apps.annotation.models import Assignment, DeskLayout, LayoutChoice, Queue
from tests import factories
from tests.accounts.clients import as_
from tests.annotation import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def annotator() -> Membership:
    return factories.member(Role.ANNOTATOR)


@pytest.fixture
def queue(annotator: Membership) -> Queue:
    return builders.queue(of=annotator.workspace, items=2)


def act(who: Membership, queue: Queue, action: str, **sent: str) -> None:
    answer = as_(who).post(reverse(f"annotation:layout_{action}", args=[queue.pk]), sent)
    assert answer.status_code == 302


def shown(who: Membership, queue: Queue) -> dict[str, str]:
    page = as_(who).get(reverse("annotation:desk", args=[queue.pk])).content.decode()
    desk = page[page.index('id="desk"') :]
    return dict(re.findall(r'data-layout-(\w+)="(\w+)"', desk[: desk.index(">")]))


def test_a_desk_that_nobody_arranged_has_the_first_choice_of_each_setting(annotator: Membership, queue: Queue):
    usual = {setting.name: setting.choices[0][0] for setting in SETTINGS}
    assert shown(annotator, queue) == usual
    rating = builders.queue_of_trajectories(Queue.Kind.RATING, of=annotator.workspace)
    assert shown(annotator, rating) == {k: v for k, v in usual.items() if k not in ("sides", "same", "questions")}


def test_what_is_arranged_is_there_on_another_machine_and_in_this_queue_only(annotator: Membership, queue: Queue):
    act(annotator, queue, "arrange", text="large")
    act(annotator, queue, "arrange", sides="stacked")
    assert (shown(annotator, queue)["text"], shown(annotator, queue)["sides"]) == ("large", "stacked")
    another = builders.queue(of=annotator.workspace)
    assert shown(annotator, another)["text"] == "normal"
    colleague = factories.member(Role.ANNOTATOR, of=annotator.workspace)
    assert shown(colleague, queue)["text"] == "normal"


def test_a_saved_layout_is_chosen_per_queue_and_per_kind(annotator: Membership, queue: Queue):
    act(annotator, queue, "arrange", text="large", bar="right")
    act(annotator, queue, "save", name="Reading")
    second, third = (builders.queue(of=annotator.workspace) for _ in range(2))
    layout = DeskLayout.objects.get()
    act(annotator, second, "choose", layout=str(layout.pk))
    assert shown(annotator, second)["bar"] == "right"
    assert shown(annotator, third)["bar"] == "bottom"
    act(annotator, second, "use_for_kind", wanted="on")
    assert shown(annotator, third)["bar"] == "right"
    assert shown(annotator, builders.queue_of_trajectories(of=annotator.workspace))["bar"] == "bottom"
    act(annotator, third, "choose", layout="")  # the default, here
    assert shown(annotator, third)["bar"] == "bottom"
    act(annotator, second, "use_for_kind")
    assert shown(annotator, builders.queue(of=annotator.workspace))["bar"] == "bottom"


def test_a_researcher_sets_the_default_of_a_queue_which_overrides_nobodys_choice(annotator: Membership, queue: Queue):
    researcher = factories.member(Role.RESEARCHER, of=annotator.workspace)
    colleague = factories.member(Role.ANNOTATOR, of=annotator.workspace)
    act(colleague, queue, "arrange", text="largest")
    page = reverse("annotation:settings", args=[queue.pk])
    sent = {"name": queue.name, "overlap": 1, "who": "all", "gold_percent": 0, "lease_minutes": 20}
    answer = as_(researcher).post(page, {**sent, "layout-sides": "stacked", "layout-text": "large"})
    assert answer.status_code == 302
    queue.refresh_from_db()
    assert queue.layout == {"sides": "stacked", "text": "large"}
    assert (shown(annotator, queue)["sides"], shown(annotator, queue)["text"]) == ("stacked", "large")
    assert shown(colleague, queue)["text"] == "largest"
    assert as_(researcher).post(page, {**sent, "layout-sides": "upside-down"}).status_code == 422
    assert as_(researcher).post(page, sent).status_code == 302
    queue.refresh_from_db()
    assert queue.layout == {"sides": "stacked", "text": "large"}  # omitted settings stay the same


def test_a_layout_from_a_queue_of_another_kind_leaves_other_settings_to_the_queue(annotator: Membership, queue: Queue):
    rating = builders.queue_of_trajectories(Queue.Kind.RATING, of=annotator.workspace)
    act(annotator, rating, "arrange", text="large")
    act(annotator, rating, "save", name="Reading")
    Queue.objects.filter(pk=queue.pk).update(layout={"sides": "stacked", "text": "largest"})
    act(annotator, queue, "choose", layout=str(DeskLayout.objects.get().pk))
    assert (shown(annotator, queue)["text"], shown(annotator, queue)["sides"]) == ("large", "stacked")
    act(annotator, queue, "arrange", bar="right")
    assert LayoutChoice.objects.get(queue=queue).changes == {"bar": "right"}


def test_a_layout_changes_nothing_of_what_is_judged(annotator: Membership, queue: Queue):
    browser = as_(annotator)
    shown(annotator, queue)
    held = Assignment.objects.get()
    item = reverse("annotation:item", args=[held.pk])

    def fragment() -> str:
        text = browser.get(item, headers={"HX-Request": "true"}).content.decode()
        return re.sub(r'(data-nonce|name="csrfmiddlewaretoken" value)="[^"]*"', "", text)

    before = fragment()
    for setting in SETTINGS:
        for value, _ in setting.choices:
            act(annotator, queue, "arrange", **{setting.name: value})
            assert fragment() == before
    held_now = Assignment.objects.get()
    assert (held_now.pk, held_now.item_id, held_now.a_is_left) == (held.pk, held.item_id, held.a_is_left)


def test_every_act_is_undone(annotator: Membership, queue: Queue):
    other = builders.queue(of=annotator.workspace)
    user = annotator.user

    def state() -> tuple[dict[str, str], str, list[str], str]:
        arrangement = arrangement_of(queue, user)
        of_other = arrangement_of(other, user).layout
        return (
            dict(arrangement.settings),
            str(arrangement.layout),
            [layout.name for layout in arrangement.saved],
            str(of_other),
        )

    act(annotator, queue, "arrange", text="large")
    act(annotator, queue, "save", name="Reading")
    act(annotator, other, "choose", layout=str(DeskLayout.objects.get().pk))
    acts: dict[str, dict[str, str]] = {
        "delete": {},
        "rename": {"name": "Evening"},
        "choose": {"layout": ""},
        "arrange": {"bar": "line"},
    }
    for action, sent in acts.items():
        before = state()
        act(annotator, queue, action, **sent)
        assert state() != before, action
        act(annotator, queue, "undo")
        assert state() == before, action
    act(annotator, queue, "arrange", bar="line")
    before = state()
    for action, sent in {"save_changes": {}, "save": {"name": "Another"}}.items():
        act(annotator, queue, action, **sent)
        assert not arrangement_of(queue, user).is_changed
        act(annotator, queue, "undo")
        assert state() == before
        assert arrangement_of(queue, user).is_changed
    with pytest.raises(LayoutRefused, match="nothing to undo"):
        layouts.undo(queue=queue, user=user)


def test_a_deleted_layout_leaves_the_default_wherever_it_was_chosen(annotator: Membership, queue: Queue):
    other = builders.queue(of=annotator.workspace)
    act(annotator, queue, "arrange", text="large")
    act(annotator, queue, "save", name="Reading")
    act(annotator, other, "choose", layout=str(DeskLayout.objects.get().pk))
    act(annotator, queue, "delete")
    assert (shown(annotator, queue)["text"], shown(annotator, other)["text"]) == ("normal", "normal")


def test_one_person_keeps_twenty_layouts(annotator: Membership, queue: Queue):
    for number in range(layouts.MAX_LAYOUTS):
        layouts.save_new(queue=queue, user=annotator.user, name=f"number {number}")
    with pytest.raises(LayoutRefused, match="You have 20 layouts"):
        layouts.save_new(queue=queue, user=annotator.user, name="one more")
    layouts.delete(queue=queue, user=annotator.user)
    elsewhere = builders.queue(of=annotator.workspace)
    layouts.save_new(queue=elsewhere, user=annotator.user, name="one more")
    with pytest.raises(LayoutRefused, match="You have 20 layouts"):  # not indirectly, either
        layouts.undo(queue=queue, user=annotator.user)
    assert DeskLayout.objects.count() == 20


@pytest.mark.parametrize("name", ["", "  ", "x" * 61, "a\0b", "Reading "])
def test_a_name_that_cannot_be_given_is_refused_in_words(annotator: Membership, queue: Queue, name: str):
    layouts.save_new(queue=queue, user=annotator.user, name="Reading")
    address = reverse("annotation:layout_save", args=[queue.pk])
    answer = as_(annotator).post(address, {"name": name}, headers={"HX-Request": "true"})
    assert answer.status_code == 422
    assert 'class="layout-problem"' in answer.content.decode()
    assert DeskLayout.objects.count() == 1


def test_only_what_there_is_can_be_chosen(annotator: Membership, queue: Queue):
    stranger = factories.member(Role.ANNOTATOR, of=annotator.workspace)
    theirs = layouts.save_new(queue=queue, user=stranger.user, name="Theirs")
    htmx = {"HX-Request": "true"}
    for action, sent in {
        "choose": {"layout": str(theirs.pk)},
        "arrange": {"sides": "left-first"},
        "rename": {"name": "Mine"},
        "delete": {},
        "save_changes": {},
        "use_for_kind": {"wanted": "on"},
        "undo": {},
    }.items():
        answer = as_(annotator).post(reverse(f"annotation:layout_{action}", args=[queue.pk]), sent, headers=htmx)
        assert answer.status_code == 422, action
    assert not LayoutChoice.objects.filter(user=annotator.user).exclude(layout=None, changes={}).exists()
    theirs.refresh_from_db()
    assert theirs.name == "Theirs"


def test_layouts_of_a_queue_that_one_may_not_see_are_not_there(annotator: Membership, queue: Queue, client: Client):
    stranger = factories.member(Role.OWNER)
    answer = as_(stranger).post(reverse("annotation:layout_arrange", args=[queue.pk]), {"text": "large"})
    assert answer.status_code == 404
