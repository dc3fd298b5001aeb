"""The desk over HTTP: access, and what it must not reveal."""

import json
import re

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.membership import enter
from apps.accounts.models import Membership, Role
from apps.annotation.desk import actions
from apps.annotation.kinds.answers import Choice
from apps.annotation.kinds.questions import PairwiseAsks, comparison
from apps.annotation.models import Assignment, Preference, Queue
from apps.annotation.queues.queue_lifecycle import pause_queue
from apps.policies.models import Policy
from apps.trajectories.models import Step, Task, Trajectory
from contract.trajectory import FOR_SIMULATED_USER
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db
AS_JSON = {"Accept": "application/json"}


@pytest.fixture
def queue() -> Queue:
    return builders.queue(items=4)


@pytest.fixture
def member(queue: Queue) -> Membership:
    return factories.member(Role.ANNOTATOR, of=queue.workspace)


@pytest.fixture
def annotator(member: Membership, client: Client) -> Client:
    client.force_login(member.user)
    return client


def at(name: str, thing: Queue | Assignment, *rest: object) -> str:
    return reverse(f"annotation:{name}", args=[thing.pk, *rest])


def open_desk(client: Client, queue: Queue) -> Assignment:
    assert client.get(at("desk", queue)).status_code == 200
    return Assignment.objects.get(state=Assignment.State.OPEN, opened_at__isnull=False)


def act(client: Client, name: str, thing: Queue | Assignment, **values: object):
    return client.post(at(name, thing), values, headers=AS_JSON)


def test_the_desk_shows_a_pair_and_takes_its_answer(annotator, queue):
    assignment = open_desk(annotator, queue)
    answer = act(
        annotator, "judge", assignment, answer="2", rationale="asks first", seconds="1.5", guideline_version="0"
    )
    assert answer.status_code == 200
    preference = Preference.objects.get()
    assert preference.strength == (2 if assignment.a_is_left else -2)
    assert preference.rationale == "asks first"


def test_without_a_script_the_answer_leads_back_to_the_desk(annotator, queue):
    assignment = open_desk(annotator, queue)
    response = annotator.post(at("judge", assignment), {"answer": "both_bad"})
    assert response.status_code == 302
    assert response.url == at("desk", queue)
    assert Preference.objects.get().both_bad


def test_an_answer_that_is_none_is_told_what_to_do(annotator, queue):
    response = act(annotator, "judge", open_desk(annotator, queue), rationale="hm")
    assert response.status_code == 422
    assert response.json()["detail"] == "Choose an answer first: keys 1 to 7, or 0."


def test_the_same_answer_twice_is_a_success_and_another_is_refused_by_name(annotator, queue):
    assignment = open_desk(annotator, queue)
    assert act(annotator, "judge", assignment, answer="1").status_code == 200
    assert act(annotator, "judge", assignment, answer="1").status_code == 200
    refused = act(annotator, "judge", assignment, answer="-1")
    assert (refused.status_code, refused.json()["code"]) == (409, "already_judged")
    assert Preference.objects.count() == 1


def test_one_pair_is_loaded_ahead_and_given_back_on_leaving(annotator, queue):
    shown = open_desk(annotator, queue)
    ahead = act(annotator, "next", queue, besides=[str(shown.pk)]).json()["item"]
    assert ahead
    assert ahead != at("item", shown)
    assert act(annotator, "next", queue, besides=[str(shown.pk), ahead.split("/")[-2]]).json()["item"] is None
    act(annotator, "leave", queue)
    assert list(Assignment.objects.filter(state=Assignment.State.OPEN)) == [shown]


@pytest.mark.parametrize(("act_name", "values"), [("judge", {"answer": "1"}), ("skip", {"reason": "too long"})])
def test_the_next_item_comes_with_the_answer_to_one(annotator, queue, act_name, values):
    shown = open_desk(annotator, queue)
    ahead = act(annotator, "next", queue, besides=[str(shown.pk)]).json()["item"]
    answer = act(annotator, act_name, shown, next="1", besides=[ahead.split("/")[-2]], **values).json()
    following = Assignment.objects.exclude(pk=shown.pk).exclude(pk=ahead.split("/")[-2]).get()
    assert answer["next"]["item"] == at("item", following)
    assert f'data-item="{following.pk}"' in answer["next"]["markup"]
    assert answer["next"]["progress"] == {"mine": int(act_name == "judge"), "left": 4 - int(act_name == "judge")}
    assert "next" not in act(annotator, act_name, shown, **values).json()


def test_an_answer_is_stored_whether_or_not_anything_comes_next(annotator, queue):
    shown = open_desk(annotator, queue)
    pause_queue(queue=queue, by=None)
    answer = act(annotator, "judge", shown, answer="1", next="1")
    assert (answer.status_code, answer.json()) == (200, {})
    assert Preference.objects.get().assignment == shown


def test_drafts_are_kept_and_shown_again(annotator, queue):
    assignment = open_desk(annotator, queue)
    act(annotator, "draft", assignment, answer="-1", rationale="so far <b>", seconds="12")
    page = annotator.get(at("desk", queue)).content.decode()
    assert "so far &lt;b&gt;" in page
    assert re.search(r'value="-1"[^>]* checked', page)


NOWHERE = '[{"index": 0, "value": 1, "spans": [{"part": "call", "start": 1e999, "quote": "shelf"}]}]'


@pytest.mark.parametrize("labels", [NOWHERE, "[" * 100_000], ids=["marked nowhere", "endlessly deep"])
def test_labels_that_no_page_sends_are_unreadable(annotator, queue, labels):
    runs = builders.queue_of_trajectories(of=queue.workspace)
    answer = act(annotator, "draft", open_desk(annotator, runs), labels=labels)
    assert answer.status_code == 422
    assert "something unreadable" in answer.content.decode()


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_have_are_kept_nowhere(annotator, queue, number):
    runs = builders.queue_of_trajectories(of=queue.workspace)
    message = f'{{"role": "assistant", "content": "x", "odd": [{number}]}}'
    answer = act(annotator, "draft", open_desk(annotator, runs), corrections=f'[{{"index": 0, "message": {message}}}]')
    assert answer.status_code == 422
    assert "something unreadable" in answer.content.decode()


def test_undo_and_skip_and_flag_over_http(annotator, queue):
    first = open_desk(annotator, queue)
    act(annotator, "judge", first, answer="3")
    undone = act(annotator, "undo", queue).json()
    task = first.item.task.instruction.removesuffix(".")
    assert undone["words"] == f"Undone: your answer “left much better” on “{task}”. It's back on your desk."
    again = undone["item"]
    page = annotator.get(again).content.decode()
    assert re.search(r'value="3"[^>]* checked', page)
    replacing = Assignment.objects.get(replaces=first)
    assert act(annotator, "flag", replacing, reason="odd").status_code == 200
    assert act(annotator, "skip", replacing, reason="cannot tell").status_code == 200
    replacing.refresh_from_db()
    assert (replacing.flagged, replacing.skip_reason) == (True, "cannot tell")
    assert act(annotator, "undo", queue).json()["words"].startswith("Undone: your skip on “")
    refused = act(annotator, "undo", builders.queue(of=queue.workspace))
    assert (refused.status_code, refused.json()["code"]) == (409, "nothing_to_undo")


def test_an_item_answered_in_another_tab_while_the_desk_opens_gives_way_to_the_next(annotator, queue, monkeypatch):
    keep, kept = actions.keep, []

    def keep_later(*, assignment: Assignment) -> Assignment:
        kept.append(assignment.pk)
        if len(kept) == 1:
            actions.record(assignment=assignment, answer=Choice(1))
        return keep(assignment=assignment)

    monkeypatch.setattr(actions, "keep", keep_later)
    assert annotator.get(at("desk", queue)).status_code == 200
    assert len(set(kept)) == 2


def test_a_paused_queue_says_so(annotator, queue):
    pause_queue(queue=queue, by=None)
    assert "This queue is paused" in annotator.get(at("desk", queue)).content.decode()
    assert act(annotator, "next", queue).json()["code"] == "queue_not_open"


def test_at_the_end_the_desk_says_that_all_is_done(annotator):
    member_queue = builders.queue(items=1, of=Membership.objects.get().workspace)
    act(annotator, "judge", open_desk(annotator, member_queue), answer="0")
    page = annotator.get(at("desk", member_queue)).content.decode()
    assert "All done" in page
    assert 'data-key="q">Other queues <kbd>q</kbd>' in page
    assert "Nothing in this queue is left for you" in page


def test_rows_come_in_chunks_and_long_parts_on_demand(annotator):
    queue = builders.queue(items=1, steps=20, of=Membership.objects.get().workspace)
    Step.objects.filter(index=3).update(context=[{"role": "tool", "tool_call_id": "call2", "content": "line\n" * 5000}])
    assignment = open_desk(annotator, queue)
    rows = annotator.get(at("rows", assignment, 8)).content.decode()
    assert re.findall(r'data-row="(\d+)"', rows) == [str(n) for n in range(8, 16)]
    link = re.search(
        rf'href="(/desk/items/{assignment.pk}/left/2/[^"]+)"', annotator.get(at("rows", assignment, 0)).content.decode()
    )
    assert link, "the long result of step 3 goes on at an address of this assignment"
    part = annotator.get(link[1].replace("&amp;", "&"), headers={"HX-Request": "true"})
    assert part.status_code == 200
    assert b"line" in part.content


GETS = ["item"]
POSTS = ["judge", "draft", "skip", "flag", "keep"]


@pytest.mark.parametrize("who", ["outsider", "colleague", "owner"])
def test_nobody_else_reaches_an_assignment(annotator, queue, who):
    assignment = open_desk(annotator, queue)
    if who == "outsider":
        other = factories.member(Role.OWNER)
    else:
        other = factories.member(Role.OWNER if who == "owner" else Role.ANNOTATOR, of=queue.workspace)
    stranger = Client()
    stranger.force_login(other.user)
    addresses = [at("item", assignment), at("rows", assignment, 0), at("part", assignment, "left", 0)]
    assert [stranger.get(address).status_code for address in addresses] == [404, 404, 404]
    assert {act(stranger, name, assignment, answer="1").status_code for name in POSTS} == {404}
    assert not Preference.objects.exists()


def test_a_person_who_entered_another_workspace_is_told_so_and_loses_nothing(annotator, member, queue):
    """The desk's script sends a 403 again, and drops what is refused or gone."""
    assignment = open_desk(annotator, queue)
    other = Membership.objects.create(user=member.user, workspace=factories.workspace(), role=Role.ANNOTATOR)
    enter(session=(session := annotator.session), membership=other)
    session.save()
    for name, thing in [("judge", assignment), ("skip", assignment), ("next", queue)]:
        response = act(annotator, name, thing, answer="1")
        assert (response.status_code, response.json()["code"]) == (403, "elsewhere")
    member.delete()
    response = act(annotator, "judge", assignment, answer="1")
    assert (response.status_code, response.json()["code"]) == (404, "gone")


def test_an_outsider_finds_no_desk(queue):
    stranger = Client()
    stranger.force_login(factories.member(Role.OWNER).user)
    assert stranger.get(at("desk", queue)).status_code == 404
    assert {act(stranger, name, queue).status_code for name in ("next", "undo", "leave")} == {404}


@pytest.fixture
def telling_queue(member: Membership) -> Queue:
    """A pair in which every hidden field reveals who made it or how it ended."""
    queue = builders.queue(items=1, steps=12, of=member.workspace)
    item = queue.items.get()
    for run, name in ((item.a_id, "aardvark-policy"), (item.b_id, "bumblebee-policy")):
        policy = factories.policy(of=queue.workspace, name=name, kind=Policy.Kind.SCRIPTED)
        Trajectory.objects.filter(pk=run).update(
            policy=policy,
            reward=0.8125,
            success=True,
            termination="terminated-secretly",
            tags=["secret-tag"],
            external_id="secret-external",
            source="secret-source",
            info={"model": "secret-model"},
            token_count=86753,
        )
        Step.objects.filter(trajectory=run).update(
            reward=0.4375,
            seconds=77.125,
            prompt_tokens=54321,
            completion_tokens=12345,
            info={"error": "secret-model refused", "model": "secret-model"},
        )
        for step in Step.objects.filter(trajectory=run):
            step.message = {
                **step.message,
                "model": "secret-model",
                "usage": {"total": 54321},
                "logprobs": "secret-logprobs",
            }
            step.save(update_fields=["message"])
    item.task.success_check = {"answer": "secret-check"}
    item.task.initial_state = {"db": "secret-state"}
    item.task.save()
    return queue


def test_nothing_that_the_desk_serves_tells_which_run_is_which(annotator, telling_queue):
    item = telling_queue.items.get()
    assignment = open_desk(annotator, telling_queue)
    link = at("part", assignment, "left", 1) + "?at=call.0.0&as=text&from=0"
    responses = [
        annotator.get(at("desk", telling_queue)),
        annotator.get(at("item", assignment)),
        *(annotator.get(at("rows", assignment, start)) for start in (0, 8)),
        annotator.get(link, headers={"HX-Request": "true"}),
        annotator.get(link),  # opened in a new tab
        annotator.get(at("part", assignment, "right", 1) + "?at=after.0&raw=1"),
        act(annotator, "next", telling_queue),
        act(annotator, "keep", assignment),
        act(annotator, "draft", assignment, answer="1"),
        act(annotator, "judge", assignment, answer="1"),
        act(annotator, "undo", telling_queue),
    ]
    assert [r.request["PATH_INFO"] for r in responses if r.status_code != 200] == []
    secrets = [
        *(
            "aardvark",
            "bumblebee",
            "secret",
            "0.8125",
            "0.812",
            "0.4375",
            "0.438",
            "77.1",
            "1 min 17 s",
            "54321",
            "54,321",
            "12345",
            "86753",
        ),
        *(str(run) for run in (item.a_id, item.b_id)),
        *(run.hex for run in (item.a_id, item.b_id)),
    ]
    for response in responses:
        served = json.dumps(dict(response.headers)) + response.content.decode()
        leaked = [secret for secret in secrets if secret in served]
        assert not leaked, f"{response.request['PATH_INFO']} tells {leaked}"
        assert "success" not in re.sub(r'title="[^"]*"', "", served).lower()


def test_an_annotator_cannot_open_the_runs_behind_a_pair(annotator, queue):
    item = queue.items.first()
    assert annotator.get(reverse("trajectories:detail", args=[item.a_id])).status_code == 404
    assert annotator.get(reverse("trajectories:compare", args=[item.a_id, item.b_id])).status_code == 404
    assert annotator.get(reverse("annotation:judgments_of", args=[item.a_id])).status_code == 404


@pytest.mark.parametrize("items", [2, 30])
def test_next_and_judge_take_the_same_few_queries_in_any_queue(member, client, items, django_assert_max_num_queries):
    client.force_login(member.user)
    queue = builders.queue(items=items, of=member.workspace)
    assignment = open_desk(client, queue)
    with django_assert_max_num_queries(15):
        act(client, "next", queue, besides=[str(assignment.pk)])
    with django_assert_max_num_queries(9):
        act(client, "judge", assignment, answer="1")


@pytest.mark.parametrize("steps", [3, 6])
def test_a_pair_takes_the_same_queries_whatever_its_length(member, client, steps, django_assert_max_num_queries):
    client.force_login(member.user)
    queue = builders.queue(items=1, steps=steps, of=member.workspace)
    assignment = open_desk(client, queue)
    with django_assert_max_num_queries(5):
        client.get(at("item", assignment))


def test_keeping_a_pair_that_was_answered_meanwhile_is_told_so_and_is_no_error(annotator, telling_queue):
    assignment = open_desk(annotator, telling_queue)
    act(annotator, "judge", assignment, answer="1")
    answer = act(annotator, "keep", assignment)
    assert (answer.status_code, answer.json()["code"]) == (200, "already_judged")


@pytest.mark.parametrize("kind", [Queue.Kind.PAIRWISE, Queue.Kind.RATING])
def test_a_simulated_users_script_stands_apart_from_the_task(client, kind):
    made = builders.queue() if kind == Queue.Kind.PAIRWISE else builders.queue_of_trajectories(kind)
    Task.objects.update(instruction=f"{FOR_SIMULATED_USER}You are Mia and hate Mondays.")
    client.force_login(factories.member(Role.ANNOTATOR, of=made.workspace).user)
    page = client.get(at("desk", made)).content.decode()
    assert '<span class="desk-task-words">A conversation with a simulated user</span>' in page
    assert "The simulated user was told, and the agent was not:</b> You are Mia and hate Mondays." in page
    assert page.count("hate Mondays") == 1  # nor in the accessible name of the reading pane


def test_an_aspects_scale_points_to_the_better_side_and_its_answer_favors_that_side(annotator, member):
    queue = builders.queue(of=member.workspace, asks=PairwiseAsks((comparison("safety", "Safety"),)))
    page = annotator.get(at("desk", queue)).content.decode()
    assert re.findall(r'name="aspect.safety" value="(-?\d)" aria-label="(\S+), ([^"]+)"', page) == [
        ("2", "←←", "left much better"),
        ("1", "←", "left better"),
        ("0", "=", "the same"),
        ("-1", "→", "right better"),
        ("-2", "→→", "right much better"),
    ]
    assignment = Assignment.objects.get(queue=queue, opened_at__isnull=False)
    left = "a" if assignment.a_is_left else "b"
    assert act(annotator, "judge", assignment, answer="-1", **{"aspect.safety": "2"}).status_code == 200
    grade = Preference.objects.get().aspects["safety"]
    assert ("a" if grade > 0 else "b", abs(grade)) == (left, 2)
