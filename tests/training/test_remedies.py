"""Applying an alarm's remedy, on the page and over REST, but only once and not by outsiders."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Role
from apps.jobs import lifecycle
from apps.training.models import Run, RunEvent
from apps.training.remedies import NoRemedy, RemedyInUse, resume_with_remedy
from contract.configs import GrpoConfig, RewardsConfig
from contract.configs.rewards import OutcomeTerm
from tests import factories
from tests.training.test_pages import bearer
from workers.bridge.configs import training_config

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher(client):
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


def stopped(of, **fields) -> Run:
    """A GRPO run that an alarm paused at step 9."""
    config = {"optimizer": {"learning_rate": 3e-4, "max_steps": 20}, "beta": 0.0}
    defaults = {"algorithm": Run.Algorithm.GRPO, "state": Run.State.CANCELLED, "checkpoint_step": 9, "config": config}
    return factories.run(of=of, **{**defaults, **fields})


def alarm_of(run: Run, *, setting: str = "optimizer.learning_rate", value: object = 1e-4) -> RunEvent:
    details = {"name": "rising_entropy", "step": 9, "setting": setting, "value": value}
    return run.events.create(kind="alarm", text="At step 9. Rising entropy.", details=details)


def test_the_run_goes_on_with_the_one_setting_changed(researcher):
    run = stopped(researcher.workspace)
    resumed = resume_with_remedy(run=run, alarm=alarm_of(run), by=researcher.user)
    assert (resumed.pk, resumed.state) == (run.pk, Run.State.QUEUED)
    assert resumed.config == {"optimizer": {"learning_rate": 1e-4, "max_steps": 20}, "beta": 0.0}
    assert training_config(resumed, files={}).optimizer.learning_rate == 1e-4  # what the worker will write
    changed, back = resumed.events.exclude(kind="alarm").order_by("id")
    assert changed.text == f"{researcher.user} changed Learning rate from 0.0003 to 0.0001, from step 9 on."
    assert changed.details == {"setting": "optimizer.learning_rate", "from": 3e-4, "to": 1e-4, "step": 9}
    assert back.text == f"Resumed by {researcher.user}, from step 9."
    entry = AuditEntry.objects.get(action="changed a setting of a run")
    assert entry.detail == {"setting": "optimizer.learning_rate", "before": 3e-4, "after": 1e-4}


def test_a_setting_within_the_reward_is_changed_there_alone(researcher):
    """The stored config is partial: what it omits has the default, a single graded outcome."""
    run = stopped(researcher.workspace)
    alarm = alarm_of(run, setting="rewards.terms[0].measure", value="success")
    resumed = resume_with_remedy(run=run, alarm=alarm, by=researcher.user)
    config = training_config(resumed, files={})
    assert isinstance(config, GrpoConfig)
    assert config.rewards == RewardsConfig(terms=(OutcomeTerm(measure="success"),))
    assert config.optimizer.learning_rate == 3e-4
    text = resumed.events.get(kind="changed").text
    assert text == f"{researcher.user} changed Outcome measure from reward to success, from step 9 on."


def test_the_other_terms_stay_what_they_were(researcher):
    terms = [{"component": "step_cost", "weight": 0.2}, {"component": "outcome", "weight": 0.5}]
    run = stopped(researcher.workspace, config={"rewards": {"terms": terms}})
    alarm = alarm_of(run, setting="rewards.terms[1].measure", value="success")
    new_terms = resume_with_remedy(run=run, alarm=alarm, by=researcher.user).config["rewards"]["terms"]
    assert [(term["component"], term["weight"], term.get("measure")) for term in new_terms] == [
        ("step_cost", 0.2, None),
        ("outcome", 0.5, "success"),
    ]


def test_its_origins_stay_what_they_were(researcher):
    run = stopped(researcher.workspace)
    resumed = resume_with_remedy(run=run, alarm=alarm_of(run), by=researcher.user)
    assert (resumed.base_id, resumed.version_id, resumed.created_at) == (run.base_id, run.version_id, run.created_at)


@pytest.mark.parametrize("state", [Run.State.RUNNING, Run.State.QUEUED, Run.State.FINISHED])
def test_one_that_goes_on_or_is_over_is_left_alone(researcher, state):
    finished = {"finished_at": "2026-01-02T12:00Z"} if state == Run.State.FINISHED else {}
    run = stopped(researcher.workspace, state=state, **finished)
    with pytest.raises(lifecycle.NotResumable, match="only a cancelled or failed one can be resumed"):
        resume_with_remedy(run=run, alarm=alarm_of(run), by=researcher.user)
    run.refresh_from_db()
    assert run.config["optimizer"]["learning_rate"] == 3e-4


def test_the_second_of_two_tabs_is_refused(researcher):
    run = stopped(researcher.workspace)
    alarm = alarm_of(run)
    resume_with_remedy(run=run, alarm=alarm, by=researcher.user)
    with pytest.raises(lifecycle.NotResumable):
        resume_with_remedy(run=run, alarm=alarm, by=researcher.user)
    assert run.events.filter(kind="changed").count() == 1


def test_a_setting_that_has_the_value_already_is_refused(researcher):
    run = stopped(researcher.workspace)
    with pytest.raises(RemedyInUse, match=r"Learning rate is 0\.0003 already\. Resume the run as it is\."):
        resume_with_remedy(run=run, alarm=alarm_of(run, value=3e-4), by=researcher.user)
    run.refresh_from_db()
    assert run.state == Run.State.CANCELLED


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("", None, "This alarm names no setting to try"),
        ("sft_weight", 0.1, "This alarm names no setting to try"),
        ("resume", False, "This alarm names no setting to try"),
        ("rewards.terms[1].measure", "success", "This alarm names no setting to try"),
        ("rewards.terms[0].component", "judge", "This alarm names no setting to try"),
        ("beta", -1.0, "KL penalty β can't be -1 in this run: beta: got -1.0, expected 0 to 10"),
    ],
)
def test_what_the_run_cannot_have_is_refused(researcher, setting, value, words):
    run = stopped(researcher.workspace)
    with pytest.raises(NoRemedy, match=words):
        resume_with_remedy(run=run, alarm=alarm_of(run, setting=setting, value=value), by=researcher.user)
    run.refresh_from_db()
    assert (run.state, run.config["beta"]) == (Run.State.CANCELLED, 0.0)


def test_the_page_has_a_button_that_does_it(client, researcher):
    run = stopped(researcher.workspace)
    alarm = alarm_of(run)
    address = reverse("training:resume", args=[run.pk])
    button = f'form="resume-run" name="alarm" value="{alarm.pk}"'
    page = client.get(reverse("training:run", args=[run.pk])).content.decode()
    assert button in page
    assert client.post(address, {"alarm": alarm.pk}).headers["Location"] == reverse("training:run", args=[run.pk])
    page = client.get(reverse("training:run", args=[run.pk])).content.decode()
    assert "changed Learning rate from 0.0003 to 0.0001, from step 9 on." in page
    assert button not in page  # it's already in use


def test_while_the_run_goes_on_the_page_says_how_to_get_there(client, researcher):
    run = stopped(researcher.workspace, state=Run.State.RUNNING)
    alarm = alarm_of(run)
    page = client.get(reverse("training:live", args=[run.pk])).content.decode()
    assert "To resume with this change, cancel the training run first" in page
    assert "Resume with this change" not in page
    answer = client.post(reverse("training:resume", args=[run.pk]), {"alarm": alarm.pk}, follow=True)
    assert "This training run is running; only a cancelled or failed one can be resumed." in answer.content.decode()


def test_an_alarm_without_a_setting_has_no_button(client, researcher):
    run = stopped(researcher.workspace)
    run.events.create(kind="alarm", text="At step 9. Dead groups.")
    page = client.get(reverse("training:run", args=[run.pk])).content.decode()
    assert "At step 9. Dead groups." in page
    assert "Resume with this change" not in page


def test_the_api_names_the_setting_and_resumes_with_it(client):
    member = factories.member()
    run = stopped(member.workspace)
    alarm = alarm_of(run)
    alarms = client.get(reverse("v1:run", args=[run.pk]), **bearer(member)).json()["alarms"]
    assert [(shown_alarm["id"], shown_alarm["setting"], shown_alarm["value"]) for shown_alarm in alarms] == [
        (alarm.pk, "optimizer.learning_rate", 1e-4)
    ]
    address = reverse("v1:run_resume_with", args=[run.pk, alarm.pk])
    answer = client.post(address, **bearer(member)).json()
    assert (answer["state"], answer["config"]["optimizer"]["learning_rate"]) == ("queued", 1e-4)
    [change] = answer["changes"]
    assert change["details"] == {"setting": "optimizer.learning_rate", "from": 3e-4, "to": 1e-4, "step": 9}
    again = client.post(address, **bearer(member))
    assert (again.status_code, again.json()["detail"]) == (
        409,
        "This training run is queued; only a cancelled or failed one can be resumed.",
    )


def test_an_alarm_that_names_nothing_says_so_over_the_api(client):
    member = factories.member()
    run = stopped(member.workspace)
    alarm = run.events.create(kind="alarm", text="At step 9. Dead groups.")
    [shown_alarm] = client.get(reverse("v1:run", args=[run.pk]), **bearer(member)).json()["alarms"]
    assert (shown_alarm["setting"], shown_alarm["value"]) == ("", None)
    assert client.post(reverse("v1:run_resume_with", args=[run.pk, alarm.pk]), **bearer(member)).status_code == 409


def test_outsiders_annotators_and_other_runs_find_nothing(client, researcher):
    run, other = stopped(researcher.workspace), stopped(researcher.workspace)
    theirs = stopped(factories.workspace())
    places = [(theirs, alarm_of(theirs)), (other, alarm_of(run)), (run, run.events.create(kind="log", text="Loading"))]
    for place, event in places:
        assert client.post(reverse("training:resume", args=[place.pk]), {"alarm": event.pk}).status_code == 404
    address = reverse("v1:run_resume_with", args=[theirs.pk, theirs.events.get().pk])
    assert client.post(address, **bearer(factories.member())).status_code == 404
    assert Client().post(address).status_code == 401
    annotator = factories.member(Role.ANNOTATOR, of=researcher.workspace)
    client.force_login(annotator.user)
    alarm = run.events.get(kind="alarm")
    assert client.post(reverse("training:resume", args=[run.pk]), {"alarm": alarm.pk}).status_code == 404
    assert set(Run.objects.values_list("state", flat=True)) == {"cancelled"}
