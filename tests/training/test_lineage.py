"""From a policy back to the judgments behind it, including rewards, and from a judgment to what learned from it."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

from apps.accounts.models import Membership, Role
from apps.annotation.models import Item, Preference, Queue
from apps.common.ids import new_id
from apps.datasets import freezing
from apps.datasets.models import Version
from apps.datasets.recipe import Recipe
from apps.policies.models import Policy
from apps.training import lineage
from apps.training.lineage import learners_from, learners_from_versions, origins_of, origins_of_run, use_of
from apps.training.models import Run, RunReward
from apps.training.queries import lineage_of
from tests import factories

pytestmark = pytest.mark.django_db


@dataclass
class Family:
    """judgment, held_out -> version -> reward model -> (reward of) tuned; base -> reward model, tuned -> later."""

    member: Membership
    judgment: Preference
    held_out: Preference
    """On a held-out task, so its row is in the test split."""
    version: Version
    base: Policy
    reward_model: Policy
    tuned: Policy
    later: Policy

    def made(self, policy: Policy) -> Run:
        return Run.objects.get(result=policy)


def frozen(queue: Queue, by: Membership) -> Version:
    """A version with all judgments of the queue."""
    dataset = freezing.create_dataset(name="taste", description="", license="", by=by)
    recipe = Recipe(queues=(str(queue.pk),), train=100, validation=0, test=0)
    version = freezing.request_version(dataset=dataset, recipe=recipe, by=by)
    freezing.freeze(version.pk)
    version.refresh_from_db()
    assert version.state == Version.State.FROZEN, version.error
    return version


def pair_in(queue: Queue, **fields: Any) -> Item:
    """A pair of trajectories of a new task with these fields."""
    task = factories.task(of=queue.workspace, **fields)
    prompt = [{"role": "user", "content": task.instruction}]
    a, b = (
        factories.trajectory(of=task, steps=[(prompt, factories.assistant_message(words))])
        for words in ("Done.", "No.")
    )
    return factories.item(of=queue, a=a, b=b)


def trained(name: str, base: Policy, *, rewards: Policy | None = None, **fields: Any) -> Policy:
    workspace = base.workspace
    policy = factories.policy(of=workspace, name=name, base=base, kind=fields.pop("kind", Policy.Kind.MODEL))
    run = factories.run(of=workspace, name=f"run of {name}", base=base, result=policy, **fields)
    if rewards:
        RunReward.objects.create(run=run, policy=rewards, term="people", component="learned_outcome", weight=0.5)
    return policy


@pytest.fixture
def family() -> Family:
    member = factories.member(Role.RESEARCHER)
    queue = factories.queue(of=member.workspace)
    annotator = factories.annotator(of=member.workspace)
    judgment = factories.preference(on=pair_in(queue), by=annotator)
    held_out = factories.preference(on=pair_in(queue, held_out=True), by=annotator)
    version = frozen(queue, member)
    base = factories.policy(of=member.workspace, name="base", kind=Policy.Kind.MODEL, location="example/base")
    kind = Policy.Kind.REWARD_MODEL
    reward_model = trained("people's taste", base, kind=kind, algorithm="reward_model", version=version)
    tuned = trained("tuned", base, rewards=reward_model, algorithm="grpo")
    later = trained("later", tuned, rewards=reward_model, algorithm="grpo")
    return Family(member, judgment, held_out, version, base, reward_model, tuned, later)


def test_a_policy_descends_from_the_judgments_behind_its_reward(family: Family):
    lines = [
        (origin.policy.name, origin.depth, origin.reward and origin.reward.weight, origin.judgments, origin.is_repeated)
        for origin in origins_of(family.tuned)
    ]
    assert lines == [
        ("tuned", 0, None, 0, False),
        ("base", 1, None, 0, False),
        ("people's taste", 1, 0.5, 1, False),
        ("base", 2, None, 0, True),
    ]
    assert origins_of(family.tuned)[2].version == family.version


def test_a_run_that_has_made_nothing_yet_descends_from_its_base_and_its_rewards(family: Family):
    run = factories.run(of=family.member.workspace, base=family.base, algorithm="grpo")
    RunReward.objects.create(run=run, policy=family.reward_model, term="people", component="learned_outcome", weight=1)
    names = [(origin.policy.name, origin.depth) for origin in origins_of_run(run)]
    assert names == [("base", 0), ("people's taste", 0), ("base", 1)]


def test_a_judgment_leads_to_everything_that_learned_from_it(family: Family):
    use = use_of(judgment=family.judgment.pk)
    assert use.versions == [family.version]
    lines = [
        (
            learner.policy and learner.policy.name,
            learner.depth,
            learner.version == family.version,
            learner.reward and learner.reward.term,
        )
        for learner in use.learners
    ]
    assert lines == [
        ("people's taste", 0, True, None),
        ("tuned", 1, False, "people"),
        ("later", 2, False, None),
        ("later", 1, False, "people"),
    ]
    assert [learner.is_repeated for learner in use.learners] == [False, False, False, True]


def test_an_item_and_both_of_its_trajectories_lead_to_the_same(family: Family):
    item = family.judgment.item
    uses = [use_of(item=item.pk), use_of(trajectory=item.a_id), use_of(trajectory=item.b_id)]
    assert all(use == use_of(judgment=family.judgment.pk) for use in uses)
    assert use_of(trajectory=new_id()) == ([], [], "")


def test_nothing_learned_from_a_judgment_in_the_test_split(client: Client, family: Family):
    use = use_of(judgment=family.held_out.pk)
    assert use == ([family.version], [], "test")
    client.force_login(family.member.user)
    page = client.get(reverse("training:lineage", args=[family.held_out.pk])).content.decode()
    assert "In the test rows of" in page
    assert "Nothing is trained on test rows." in page
    assert "people" not in page


def test_the_page_of_a_run_counts_the_judgments_that_it_learned_from(family: Family):
    run = family.made(family.reward_model)
    lineage = lineage_of(run)
    assert lineage is not None
    assert lineage.judgments == 1


def test_what_learned_from_a_policy_has_what_it_rewarded_and_runs_that_made_nothing_yet(family: Family):
    running = factories.run(of=family.member.workspace, base=family.later, state=Run.State.RUNNING)
    lines = [(learner.run, learner.policy, learner.depth) for learner in learners_from(family.reward_model)]
    assert lines == [
        (family.made(family.tuned), family.tuned, 0),
        (family.made(family.later), family.later, 1),
        (running, None, 2),
        (family.made(family.later), family.later, 0),
    ]


def test_a_policy_that_rewards_the_next_one_and_descends_from_it_ends_the_walk(family: Family):
    """A reward model trained from the policy that it rewards isn't a cycle; the walk would end even for a cycle in the data."""
    newer = trained("newer taste", family.later, kind=Policy.Kind.REWARD_MODEL, algorithm="reward_model")
    run = family.made(family.tuned)
    RunReward.objects.create(run=run, policy=newer, term="newer", component="learned_outcome", weight=1)
    assert [origin.policy.name for origin in origins_of(family.tuned)].count("tuned") == 2
    assert any(learner.is_repeated for learner in learners_from(family.tuned))


def test_the_fiftieth_generation_descends_from_the_first_one(family: Family):
    newest = family.base
    for number in range(50):
        newest = trained(f"generation {number}", newest, algorithm="grpo")
    assert [origin.policy for origin in origins_of(newest)][-1] == family.base
    assert newest in [learner.policy for learner in learners_from(family.base)]


def test_a_list_that_is_cut_says_so(client: Client, family: Family, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lineage, "MAX_LINES", 2)
    monkeypatch.setattr(lineage, "READ", 3)
    newest = family.base
    for number in range(2):
        newest = trained(f"generation {number}", newest, algorithm="grpo")
    assert [len(origins_of(newest)), origins_of(newest).has_more] == [2, True]
    assert (len(learners_from(family.reward_model)), learners_from(family.reward_model).has_more) == (2, True)
    oldest = trained("oldest", trained("older", factories.policy(of=family.member.workspace)), algorithm="grpo")
    assert not learners_from(oldest.base).has_more
    client.force_login(family.member.user)
    page = client.get(reverse("policies:policy", args=[newest.pk])).content.decode()
    assert "Only the first 2 are listed." in page
    answer = response_to(client, family.member, family, "policy_lineage").json()
    assert (len(answer["learners"]) <= 2, answer["has_more"]) == (True, True)


def test_what_is_read_takes_the_same_queries_however_much_there_is(family: Family, django_assert_num_queries):
    def longer(start: Policy) -> Policy:
        policy = start
        for number in range(4):
            policy = trained(f"generation {number}", policy, rewards=family.reward_model, algorithm="grpo")
        return policy

    last = longer(family.later)
    for policy in (family.tuned, last):
        with django_assert_num_queries(
            5
        ):  # the recursive query, policies, rewards, judgments of pairs and of single trajectories
            origins_of(policy)
    for policy in (family.reward_model, family.tuned):
        with django_assert_num_queries(4):  # the recursive query, runs by base, runs by reward, policies without a run
            learners_from(policy)
    with django_assert_num_queries(5):
        learners_from_versions([family.version.pk])


PLACES = {
    "policy_lineage": lambda family: family.tuned.pk,
    "run_lineage": lambda family: family.made(family.tuned).pk,
    "version_lineage": lambda family: family.version.pk,
    "judgment_lineage": lambda family: family.judgment.pk,
    "item_lineage": lambda family: family.judgment.item_id,
    "trajectory_lineage": lambda family: family.judgment.item.a_id,
}


def response_to(client: Client, member: Membership, family: Family, name: str) -> Any:
    bearer = {"HTTP_AUTHORIZATION": f"Bearer {factories.token(member)}"}
    return client.get(reverse(f"v1:{name}", args=[PLACES[name](family)]), **bearer)


@pytest.mark.parametrize("name", PLACES)
def test_lineage_over_rest_is_for_researchers_of_the_workspace(client: Client, family: Family, name: str):
    annotator = factories.member(Role.ANNOTATOR, of=family.member.workspace)
    assert response_to(client, factories.member(Role.OWNER), family, name).status_code == 404
    assert response_to(client, annotator, family, name).status_code == 404
    answer = response_to(client, family.member, family, name)
    assert answer.status_code == 200
    assert [line["policy"]["name"] for line in answer.json()["learners"]][-1] == "later"


def test_rest_tells_through_which_term_a_policy_was_rewarded(client: Client, family: Family):
    origins = response_to(client, family.member, family, "policy_lineage").json()["origins"]
    assert origins[2] == {
        "depth": 1,
        "policy": {"id": str(family.reward_model.pk), "name": "people's taste"},
        "kind": "reward_model",
        "reward": {"term": "people", "component": "learned_outcome", "weight": 0.5},
        "run": {"id": str(family.made(family.reward_model).pk), "name": "run of people's taste"},
        "version": {"id": str(family.version.pk), "name": str(family.version)},
        "judgments": 1,
        "is_repeated": False,
    }


def pages(family: Family) -> dict[str, str]:
    item, version = family.judgment.item, family.version
    return {
        "policy": reverse("policies:policy", args=[family.reward_model.pk]),
        "version": reverse("datasets:version", args=[version.dataset_id, version.number]),
        "item": reverse("annotation:queue_item", args=[item.queue_id, item.pk]),
        "trajectory": reverse("trajectories:detail", args=[item.a_id]),
        "judgment": reverse("training:lineage", args=[family.judgment.pk]),
    }


@pytest.mark.parametrize("page", ["policy", "version", "item", "trajectory", "judgment"])
def test_pages_link_what_learned(client: Client, family: Family, page: str):
    client.force_login(family.member.user)
    text = client.get(pages(family)[page]).content.decode()
    for policy in (family.tuned, family.later):
        assert reverse("policies:policy", args=[policy.pk]) in text
    assert "weight" in text


def test_a_policy_and_the_run_of_its_name_are_told_apart(client: Client, family: Family):
    client.force_login(family.member.user)
    run = family.made(family.tuned)
    made_by = rf'made by (.*?<a href="{reverse("training:run", args=[run.pk])}">[^<]+</a>(?: \([^)]+\))?)'
    for name, words in ((family.tuned.name, f"a training run ({run.get_algorithm_display()})"), ("sweep 3", "sweep 3")):
        Run.objects.filter(pk=run.pk).update(name=name)
        page = client.get(reverse("policies:policy", args=[family.tuned.pk])).content.decode()
        (link,) = re.findall(made_by, page)
        assert strip_tags(link) == words


def test_the_page_of_a_run_links_its_rewards_and_their_versions(client: Client, family: Family):
    client.force_login(family.member.user)
    text = client.get(reverse("training:run", args=[family.made(family.tuned).pk])).content.decode()
    assert reverse("policies:policy", args=[family.reward_model.pk]) in text
    assert reverse("datasets:version", args=[family.version.dataset_id, family.version.number]) in text
    assert "1 judgment" in text


def test_those_below_researchers_are_not_told_what_learned_from_a_trajectory(client: Client, family: Family):
    for role, code in ((Role.ANNOTATOR, 404), (Role.REVIEWER, 200)):
        client.force_login(factories.member(role, of=family.member.workspace).user)
        answer = client.get(pages(family)["trajectory"])
        assert (answer.status_code, "tuned" in answer.content.decode()) == (code, False)
        assert client.get(pages(family)["judgment"]).status_code == 404


def test_an_outsider_finds_no_judgment(client: Client, family: Family):
    client.force_login(factories.member(Role.OWNER).user)
    assert client.get(pages(family)["judgment"]).status_code == 404
