"""The pages of experiments, as members of each role and as outsiders."""

import re

import pytest
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Role
from apps.arena.lifecycle import advance
from apps.arena.models import Experiment
from apps.jobs.models import JobState
from apps.policies.promotions import champion, promote
from apps.trajectories.models import RolloutBatch
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher():
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def experiment(researcher):
    return make_experiment(researcher.workspace)


def make_experiment(workspace, **fields) -> Experiment:
    a, b = factories.policy(of=workspace), factories.policy(of=workspace)
    batches = [
        RolloutBatch.objects.create(workspace=workspace, policy=p, environment="office", state=JobState.DONE, total=4)
        for p in (a, b)
    ]
    return Experiment.objects.create(
        **{
            "workspace": workspace,
            "name": f"experiment {a}",
            "environment": "office",
            "policy_a": a,
            "policy_b": b,
            "rollouts_a": batches[0],
            "rollouts_b": batches[1],
            "plan": {"tasks": 4, "samples": 1, "seed": 1, "overlap": 1, "rule": {"min_tasks": 2}},
            "queue": factories.queue(of=workspace),
            "state": Experiment.State.LABELING,
            **fields,
        }
    )


def addresses(experiment: Experiment) -> list[tuple[str, str]]:
    pk = experiment.pk
    return [
        ("get", reverse("arena:experiment", args=[pk])),
        ("get", reverse("arena:standing", args=[pk])),
        ("post", reverse("arena:stop", args=[pk])),
        ("post", reverse("arena:promote", args=[pk])),
    ]


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER])
def test_lower_roles_find_nothing(client, experiment, role):
    client.force_login(factories.member(role, of=experiment.workspace).user)
    for method, address in [*addresses(experiment), ("get", reverse("arena:list")), ("get", reverse("arena:new"))]:
        assert getattr(client, method)(address).status_code == 404, address


def test_an_outsider_finds_nothing_and_changes_nothing(client, experiment):
    client.force_login(factories.member(Role.OWNER).user)
    for method, address in addresses(experiment):
        assert getattr(client, method)(address).status_code == 404, address
    experiment.refresh_from_db()
    assert experiment.state == "labeling"
    assert experiment.name not in client.get(reverse("arena:list")).content.decode()


def test_an_outsider_cannot_roll_back_someone_elses_champion(client, experiment, researcher):
    for policy in (experiment.policy_a, experiment.policy_b):
        promote(policy=policy, environment="office", by=researcher.user, reason="-")
    client.force_login(factories.member(Role.OWNER).user)
    client.post(reverse("arena:roll_back", args=["office"]))
    assert champion(workspace=experiment.workspace, environment="office") == experiment.policy_b


def test_an_environment_that_no_text_can_name_is_not_there(client, researcher):
    client.force_login(researcher.user)
    assert client.post(reverse("arena:roll_back", args=["\0"])).status_code == 404


def test_the_page_shows_wins_ties_losses_and_success(client, experiment, researcher):
    for strength in (2, 2, 0, -1):
        task = factories.task(of=experiment.workspace)
        sides = [
            factories.trajectory(of=task, policy=p, rollout_batch=batch, success=p == experiment.policy_a)
            for p, batch in ((experiment.policy_a, experiment.rollouts_a), (experiment.policy_b, experiment.rollouts_b))
        ]
        item = factories.item(of=experiment.queue, a=sides[0], b=sides[1], taken=1, judged=1)
        factories.preference(strength, on=item)
    client.force_login(researcher.user)
    figures = client.get(reverse("arena:experiment", args=[experiment.pk])).context["figures"]
    assert (figures.tally.wins, figures.tally.ties, figures.tally.losses) == (2, 1, 1)
    assert figures.win_rate.estimate == 0.625  # (1 + 1 + ½ + 0) / 4
    assert (figures.success_a.succeeded, figures.success_b.succeeded, figures.success_a.runs) == (4, 0, 4)


@pytest.mark.parametrize(
    ("compared", "words"),
    [
        (4, ""),
        (3, "1 of 4 tasks is not compared: on it a policy took no steps, so there was nothing to judge."),
        (1, "3 of 4 tasks are not compared: on them a policy took no steps, so there was nothing to judge."),
    ],
)
def test_tasks_that_only_one_policy_got_anywhere_with_are_told(client, experiment, researcher, compared, words):
    for _ in range(compared):
        task = factories.task(of=experiment.workspace)
        a, b = (factories.trajectory(of=task) for _ in range(2))
        factories.item(of=experiment.queue, a=a, b=b)
    client.force_login(researcher.user)
    page = client.get(reverse("arena:experiment", args=[experiment.pk]))
    assert page.context["left_out"] == words
    assert words in page.content.decode()


def test_an_experiment_that_rolls_out_leads_to_its_rollouts(client, researcher):
    experiment = make_experiment(researcher.workspace, state=Experiment.State.ROLLING_OUT, queue=None)
    client.force_login(researcher.user)
    page = client.get(reverse("arena:experiment", args=[experiment.pk])).content.decode()
    for batch in (experiment.rollouts_a_id, experiment.rollouts_b_id):
        assert reverse("training:rollouts", args=[batch]) in page


def test_a_decided_experiment_shows_what_it_was_decided_on(client, experiment, researcher):
    judgments = []
    for _ in range(12):
        task = factories.task(of=experiment.workspace)
        a, b = (factories.trajectory(of=task) for _ in range(2))
        item = factories.item(of=experiment.queue, a=a, b=b, taken=1, judged=1)
        judgments.append(factories.preference(2, on=item))
    advance(experiment)
    experiment.refresh_from_db()
    decided = {key: value for key, value in experiment.verdict.items() if not key.startswith("stopped_by")}
    for judgment in judgments:  # as no code path does
        judgment.retracted_at = judgment.created_at
        judgment.save()
    client.force_login(researcher.user)
    page = client.get(reverse("arena:experiment", args=[experiment.pk]))
    assert (page.context["winner"], page.context["figures"].tally.wins) == (experiment.policy_a, 12)
    assert client.get(reverse("v1:experiment", args=[experiment.pk])).json()["standing"] == decided
    del experiment.verdict["alike"]
    experiment.save()
    assert client.get(reverse("arena:standing", args=[experiment.pk])).context["figures"].alike == 0
    experiment.verdict |= {"stopped_by_rule": False, "stopped_by": "Ada", "promoted": "new"}
    experiment.save()
    early = "before the stopping rule was met, so treat it as a preview, not as a decision."
    assert early in client.get(reverse("arena:standing", args=[experiment.pk])).text


def test_the_winner_is_promoted_with_reason_and_evidence_and_rolled_back_in_one_click(client, experiment, researcher):
    promote(policy=experiment.policy_b, environment="office", by=researcher.user, reason="the first")
    client.force_login(researcher.user)
    address = reverse("arena:promote", args=[experiment.pk])
    client.post(address, {"policy": experiment.policy_a.pk, "reason": "better on held-out tasks"})
    assert champion(workspace=experiment.workspace, environment="office") == experiment.policy_a
    promotion = experiment.policy_a.promotions.get()
    assert promotion.reason == "better on held-out tasks"
    assert promotion.evidence["experiment"] == str(experiment.pk)
    client.post(reverse("arena:roll_back", args=["office"]), {"reason": "regression"})
    assert champion(workspace=experiment.workspace, environment="office") == experiment.policy_b


def test_two_who_roll_back_at_once_go_back_one_champion(client, experiment, researcher):
    policies = [factories.policy(of=researcher.workspace, name=name) for name in ("first", "second", "third")]
    for policy in policies:
        promote(policy=policy, environment="office", by=researcher.user, reason="Better.")
    client.force_login(researcher.user)
    page = client.get(reverse("arena:experiment", args=[experiment.pk])).content.decode()
    assert f'name="champion" value="{policies[2].pk}"' in page
    sent = {"reason": "It broke.", "champion": str(policies[2].pk)}
    address = reverse("arena:roll_back", args=["office"])
    assert "second is champion of office again." in client.post(address, sent, follow=True).content.decode()
    again = client.post(address, sent, follow=True).content.decode()
    assert "Nothing was rolled back: second is the champion of office by now." in again
    assert champion(workspace=researcher.workspace, environment="office").name == "second"


def test_rolling_back_is_offered_only_where_there_was_a_champion_before(client, experiment, researcher):
    client.force_login(researcher.user)
    address, offer = reverse("arena:experiment", args=[experiment.pk]), reverse("arena:roll_back", args=["office"])
    promote(policy=experiment.policy_a, environment="office", by=researcher.user, reason="the first")
    assert offer not in client.get(address).content.decode()
    promote(policy=experiment.policy_b, environment="office", by=researcher.user, reason="the second")
    assert offer in client.get(address).content.decode()


def test_a_failed_experiment_leads_to_the_rollouts_that_stopped(client, researcher):
    experiment = make_experiment(
        researcher.workspace, state=Experiment.State.FAILED, queue=None, error="The rollouts failed."
    )
    RolloutBatch.objects.filter(pk=experiment.rollouts_b_id).update(state=JobState.FAILED)
    client.force_login(researcher.user)
    page = client.get(reverse("arena:experiment", args=[experiment.pk])).content.decode()
    assert reverse("training:rollouts", args=[experiment.rollouts_b_id]) in page
    assert reverse("training:rollouts", args=[experiment.rollouts_a_id]) not in page


def test_a_promotion_needs_a_reason(client, experiment, researcher):
    client.force_login(researcher.user)
    address = reverse("arena:promote", args=[experiment.pk])
    assert client.post(address, {"policy": experiment.policy_a.pk, "reason": ""}).status_code == 422
    stranger = factories.policy(of=experiment.workspace)
    assert client.post(address, {"policy": stranger.pk, "reason": "not a side"}).status_code == 422
    assert champion(workspace=experiment.workspace, environment="office") is None


def test_the_same_policy_twice_is_refused_with_words(client, researcher):
    policy = factories.policy(of=researcher.workspace)
    client.force_login(researcher.user)
    plan = {"name": "x", "environment": "office", "tasks": 4, "samples": 1, "overlap": 1, "min_tasks": 2}
    answer = client.post(reverse("arena:new"), {**plan, "policy_a": policy.pk, "policy_b": policy.pk})
    assert answer.status_code == 422
    assert "Both sides are the same policy" in answer.content.decode()


def test_more_runs_than_a_batch_takes_are_refused_with_words(client, researcher):
    a, b = factories.policy(of=researcher.workspace), factories.policy(of=researcher.workspace)
    client.force_login(researcher.user)
    plan = {"name": "x", "environment": "office", "tasks": 2000, "samples": 16, "overlap": 1, "min_tasks": 2}
    answer = client.post(reverse("arena:new"), {**plan, "policy_a": a.pk, "policy_b": b.pk})
    assert answer.status_code == 422
    assert "These are 32,000 rollouts of each policy" in answer.content.decode()


def test_a_new_experiment_starts_rollouts_of_both(client, researcher):
    a, b = factories.policy(of=researcher.workspace), factories.policy(of=researcher.workspace)
    client.force_login(researcher.user)
    plan = {"name": "a or b", "environment": "office", "tasks": 4, "samples": 1, "overlap": 1, "min_tasks": 2}
    answer = client.post(reverse("arena:new"), {**plan, "policy_a": a.pk, "policy_b": b.pk})
    experiment = Experiment.objects.get()
    assert answer.url == reverse("arena:experiment", args=[experiment.pk])
    assert {experiment.rollouts_a.policy, experiment.rollouts_b.policy} == {a, b}
    assert client.get(answer.url).status_code == 200


def test_rolling_back_never_leads_to_another_site(client, researcher):
    client.force_login(researcher.user)
    answer = client.post(reverse("arena:roll_back", args=["office"]), {"next": "//elsewhere.example/"})
    assert answer.url == reverse("policies:list")


def test_what_can_be_done_comes_along_once_it_is_something_else_and_not_before(client, researcher):
    """A page opened during the rollouts gets Stop, Label, Promote, and its queue without a reload."""
    experiment = make_experiment(researcher.workspace, state=Experiment.State.ROLLING_OUT)
    client.force_login(researcher.user)

    def follow(page: str) -> str:
        [address] = re.findall(r'hx-get="([^"]*/standing/[^"]*)"', page)
        return client.get(address.replace("&amp;", "&"), headers={"HX-Request": "true"}).content.decode()

    page = client.get(reverse("arena:experiment", args=[experiment.pk])).content.decode()
    assert "Promote <kbd>" not in page
    assert "hx-swap-oob" not in follow(page)
    Experiment.objects.filter(pk=experiment.pk).update(state=Experiment.State.LABELING)
    moved = follow(page)
    assert moved.count('hx-swap-oob="true"') == 3  # including the promotion dialog
    assert [words in moved for words in ("Stop now", "Label <kbd>", "Promote <kbd>", "<h2>Its queue</h2>")] == [
        True
    ] * 4
    assert "hx-swap-oob" not in follow(moved)
    Experiment.objects.filter(pk=experiment.pk).update(state=Experiment.State.STOPPED, stopped_at=now())
    ended = follow(moved)
    assert ["Stop now" in ended, "Promote <kbd>" in ended, "<dt>Ended</dt>" in ended] == [False, True, True]
    assert "hx-get" not in ended
