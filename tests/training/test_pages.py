"""Pages and API of runs: permissions, content, and refusals."""

import json
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.api_tokens import issue_token
from apps.accounts.models import Membership, Role
from apps.policies.models import Policy
from apps.training.folders import folder_of
from apps.training.launch import Check
from apps.training.models import Metric, Run
from apps.training.series import metric_points
from apps.training.views import runs as views
from apps.trajectories.models import RolloutBatch
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_worker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "CHECK_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr("apps.training.api.runs.CHECK_PATIENCE_SECONDS", 0.0)


@pytest.fixture
def researcher(client: Client) -> Membership:
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


def bearer(member: Membership) -> dict[str, str]:
    return {"HTTP_AUTHORIZATION": f"Bearer {issue_token(membership=member, name='tests').secret}"}


def batch_of(member: Membership) -> RolloutBatch:
    policy = factories.policy(of=member.workspace)
    tasks = {"split": "held_out", "count": 3, "levels": [], "seed": 0}
    return RolloutBatch.objects.create(
        workspace=member.workspace, policy=policy, environment="office", config={"tasks": tasks, "samples": 1}, total=3
    )


def _counting() -> CaptureQueriesContext:
    return CaptureQueriesContext(connection)


def form_for(member: Membership, **changes: object) -> dict[str, object]:
    version = factories.dataset_version(of=member.workspace)
    base = factories.policy(of=member.workspace, kind=Policy.Kind.MODEL, location="example/base")
    chosen = {"algorithm": "dpo", "version": version.pk, "base": base.pk, "preset": "standard", "method": "full"}
    return {**chosen, **changes}


NO_HUB_ID = (
    "'/etc' isn't a hub id, such as Qwen/Qwen3-0.6B: an owner and a name, or a name alone. "
    "Register a folder under Policies."
)
RUN_ADDRESSES = [
    ("get", "training:run"),
    ("get", "training:live"),
    ("get", "training:series"),
    ("get", "training:tables"),
    ("get", "training:log"),
    ("post", "training:cancel"),
    ("post", "training:resume"),
]
ROLLOUT_ADDRESSES = [
    ("get", "training:rollouts"),
    ("get", "training:rollouts_live"),
    ("post", "training:cancel_rollouts"),
    ("post", "training:resume_rollouts"),
]
API_ADDRESSES = [
    ("get", "v1:run"),
    ("get", "v1:run_metrics"),
    ("post", "v1:run_cancel"),
    ("post", "v1:run_resume"),
]


@pytest.mark.parametrize(("method", "name"), RUN_ADDRESSES)
def test_a_run_is_found_by_researchers_of_its_workspace_only(client, researcher, method, name):
    mine, theirs = factories.run(of=researcher.workspace), factories.run()
    assert getattr(client, method)(reverse(name, args=[mine.pk])).status_code in (200, 302)
    assert getattr(client, method)(reverse(name, args=[theirs.pk])).status_code == 404
    theirs.refresh_from_db()
    assert theirs.state == "queued"
    annotator = factories.member(Role.ANNOTATOR, of=researcher.workspace)
    client.force_login(annotator.user)
    assert getattr(client, method)(reverse(name, args=[mine.pk])).status_code == 404


@pytest.mark.parametrize(("method", "name"), ROLLOUT_ADDRESSES)
def test_rollouts_are_found_by_researchers_of_their_workspace_only(client, researcher, method, name):
    mine, theirs = batch_of(researcher), batch_of(factories.member())
    assert getattr(client, method)(reverse(name, args=[mine.pk])).status_code in (200, 302)
    assert getattr(client, method)(reverse(name, args=[theirs.pk])).status_code == 404
    reviewer = factories.member(Role.REVIEWER, of=researcher.workspace)
    client.force_login(reviewer.user)
    assert getattr(client, method)(reverse(name, args=[mine.pk])).status_code == 404


@pytest.mark.parametrize(("method", "name"), API_ADDRESSES)
def test_the_api_shows_a_run_to_its_workspace_only(client, method, name):
    member, outsider = factories.member(), factories.member()
    run = factories.run(of=member.workspace)
    assert getattr(client, method)(reverse(name, args=[run.pk]), **bearer(member)).status_code in (200, 409)
    assert getattr(client, method)(reverse(name, args=[run.pk]), **bearer(outsider)).status_code == 404
    assert getattr(client, method)(reverse(name, args=[run.pk])).status_code == 401


@pytest.mark.parametrize(
    "name", ["training:list", "training:new", "training:new_rollouts", "policies:list", "policies:new"]
)
def test_those_below_researchers_have_no_such_pages(client, researcher, name):
    assert client.get(reverse(name)).status_code == 200
    client.force_login(factories.member(Role.REVIEWER, of=researcher.workspace).user)
    assert client.get(reverse(name)).status_code == 404


def test_a_page_of_a_long_run_asks_as_much_as_that_of_a_short_one(client, researcher):
    def queries(run: Run) -> int:
        with _counting() as counted:
            assert client.get(reverse("training:run", args=[run.pk])).status_code == 200
        return len(counted)

    runs = [factories.run(of=researcher.workspace, state=Run.State.RUNNING) for _ in range(2)]
    Metric.objects.bulk_create(Metric(run=runs[0], step=step, values={"loss": 1.0}) for step in range(3))
    Metric.objects.bulk_create(Metric(run=runs[1], step=step, values={"loss": 1.0}) for step in range(2000))
    queries(runs[0])
    assert queries(runs[0]) == queries(runs[1])


def test_a_launch_from_the_form_opens_the_runs_page(client, researcher):
    answer = client.post(reverse("training:new"), form_for(researcher, name="dpo-1"))
    run = Run.objects.get()
    assert answer.headers["Location"] == reverse("training:run", args=[run.pk])
    page = client.get(answer.headers["Location"]).content.decode()
    assert "No worker is running that could take this" in page
    assert f"{run.pk}/run.json" in page


@pytest.mark.parametrize(
    ("row_type", "usual"), [("steps", "process_reward_model"), ("unpaired", "kto"), ("preference", "dpo")]
)
def test_training_on_a_version_begins_with_the_algorithm_for_its_rows(client, researcher, row_type, usual):
    version = factories.dataset_version(of=researcher.workspace, row_type=row_type)
    form = client.get(reverse("training:new"), {"version": version.pk}).context["form"]
    assert form["algorithm"].value() == usual


def test_versions_are_offered_by_what_their_rows_hold(client, researcher):
    for row_type in ("steps", "preference", "preference"):
        factories.dataset_version(of=researcher.workspace, row_type=row_type)
    page = client.get(reverse("training:new")).content.decode()
    groups = re.findall(r'<optgroup label="([^"]+)">(.*?)</optgroup>', page, re.DOTALL)
    assert [(label, options.count("training rows")) for label, options in groups if "training rows" in options] == [
        ("Preferences", 2),
        ("Process labels", 1),
    ]


def test_a_refused_launch_comes_back_with_its_reason_at_the_field(client, researcher):
    answer = client.post(
        reverse("training:new"),
        form_for(researcher, **{"optimizer-batch_size": 64, "optimizer-gradient_accumulation": 1}),
    )
    assert answer.status_code == 422
    assert "one step takes 64" in answer.content.decode()
    assert not Run.objects.exists()


def test_a_version_of_another_workspace_cannot_be_chosen(client, researcher):
    foreign = factories.dataset_version()
    answer = client.post(reverse("training:new"), form_for(researcher, version=foreign.pk))
    assert answer.status_code == 422
    answer = client.post(
        reverse("v1:runs"),
        json.dumps({"algorithm": "sft", "version": str(foreign.pk)}),
        "application/json",
        **bearer(researcher),
    )
    assert answer.status_code == 400
    assert answer.json()["fields"] == {"version": ["There is no such version in this workspace."]}


def test_the_check_panel_shows_the_exact_command_and_asks_again_while_it_waits(client, researcher):
    page = client.post(reverse("training:check"), form_for(researcher)).content.decode()
    assert "-m trainer" in page
    assert 'hx-trigger="load delay:500ms"' in page


@pytest.mark.parametrize(
    ("answered", "shown"),
    [
        ({}, "<dt>Time</dt>–"),  # refused before the time is estimated
        ({"seconds_low": 90.0, "seconds_high": 90.0}, "about 1 min 30 s once it runs"),
        (
            {"seconds_low": 90.0, "seconds_high": 7200.0, "time_words": "from grpo-1 here"},
            "1 min 30 s to 2 h from grpo-1 here",
        ),
        ({"time_words": "the model has <b>no</b> size"}, "unknown because the model has &lt;b&gt;no&lt;/b&gt; size"),
    ],
)
def test_the_check_panel_says_how_long_and_why(client, researcher, monkeypatch, answered: dict, shown: str):
    monkeypatch.setattr(views, "check_with_worker", lambda plan: Check("passed", **answered))
    page = client.post(reverse("training:check"), form_for(researcher)).content.decode()
    assert shown in re.sub(r"</?(span|dd)[^>]*>", "", page)


def test_the_check_panel_says_why_a_preset_keeps_to_a_rule(client, researcher):
    grpo = form_for(researcher, algorithm="grpo", version="")
    words = "<dt>Mask cut-off turns</dt><dd>on"
    panel = client.post(reverse("training:check"), grpo).content.decode()
    assert words in panel
    assert (
        "because rollouts that end in a cut-off turn are the longest, so their noise would outweigh the rest in the loss"
        in panel
    )
    assert words not in client.post(reverse("training:check"), {**grpo, "mask_cut_off": "false"}).content.decode()
    assert words not in client.post(reverse("training:check"), form_for(researcher)).content.decode()


def test_a_reward_from_the_form_measures_the_outcome_by_success_unless_told_otherwise(client, researcher):
    weight = {"term-outcome-weight": "1", "term-step_cost-weight": "0.1"}
    grpo = form_for(researcher, algorithm="grpo", version="", **weight)
    words = "<dt>Outcome measure</dt><dd>success"
    assert words in client.post(reverse("training:check"), grpo).content.decode()
    graded = client.post(reverse("training:check"), {**grpo, "term-outcome-measure": "reward"}).content.decode()
    assert words not in graded
    assert "<dt>Mask cut-off turns</dt><dd>on" in graded
    assert "Preset: success" in client.get(reverse("training:new"), grpo).content.decode()


@pytest.mark.parametrize(
    ("algorithm", "left_open", "words"),
    [
        ("dpo", ["version", "base"], "Choose a dataset version and a model to start from to see"),
        ("dpo", ["base"], "Choose a model to start from to see"),
        ("sft", ["version", "base"], "Choose a dataset version to see"),  # it can create a new model
        ("grpo", ["base"], "Choose a model to start from to see"),  # it learns from its own rollouts
    ],
)
def test_the_check_panel_is_quiet_about_what_is_not_chosen_yet(client, researcher, algorithm, left_open, words):
    chosen = form_for(researcher, algorithm=algorithm, **dict.fromkeys(left_open, ""))
    panel = client.post(reverse("training:check"), chosen).content.decode()
    assert words in panel
    assert "notice" not in panel
    assert words in client.get(reverse("training:new"), chosen).content.decode()


def test_the_check_panel_refuses_what_is_chosen_wrongly_whatever_is_still_open(client, researcher):
    rated = factories.dataset_version(of=researcher.workspace, row_type="steps")
    panel = client.post(reverse("training:check"), form_for(researcher, version=rated.pk, base="")).content.decode()
    assert "has steps rows" in panel
    assert "Choose a model to start from" in panel


def test_what_failed_is_said_with_what_to_do_now(client, researcher):
    failure = {
        "category": "out_of_memory",
        "message": "Out of memory: 3 GB",
        "advice": "Halve it.",
        "details": "",
        "log": ["<b>last line</b>"],
        "command": "x",
    }
    run = factories.run(of=researcher.workspace, state=Run.State.FAILED, failure=failure, step=7, checkpoint_step=5)
    page = client.get(reverse("training:run", args=[run.pk])).content.decode()
    for words in ("It ran out of memory at step 7", "Halve it.", "Resume continues from there", "&lt;b&gt;last line"):
        assert words in page


def test_the_log_is_read_on_from_a_byte(client, researcher):
    run = factories.run(of=researcher.workspace)
    folder = folder_of(run.pk)
    folder.path.mkdir(parents=True)
    folder.log.write_bytes(b"one\ntwo\n10%\r50%\r100%\n\0\xff\n")
    address = reverse("training:log", args=[run.pk])
    assert client.get(address, {"after": 0}).json() == {"text": "one\ntwo\n100%\n␀�\n", "end": 24, "skipped": 0}
    assert client.get(address, {"after": 24}).json() == {"text": "", "end": 24, "skipped": 0}
    assert client.get(address, {"after": "nonsense"}).json()["end"] == 24


def test_a_line_of_the_log_that_is_being_written_is_read_once_it_is_complete(client, researcher):
    run = factories.run(of=researcher.workspace, state=Run.State.RUNNING)
    folder = folder_of(run.pk)
    folder.path.mkdir(parents=True)
    folder.log.write_bytes("one\n10%\r20 €".encode()[:-1])
    address = reverse("training:log", args=[run.pk])
    assert client.get(address, {"after": 0}).json() == {"text": "one\n", "end": 4, "skipped": 0}
    assert 'data-end="4"' in client.get(reverse("training:run", args=[run.pk])).content.decode()
    assert client.get(address, {"after": 4}).json() == {"text": "", "end": 4, "skipped": 0}
    folder.log.write_bytes("one\n10%\r20 €\rdone".encode())
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED)
    assert client.get(address, {"after": 4}).json()["text"] == "done"


def test_metrics_of_a_long_run_are_averaged_to_the_asked_number_of_points(client):
    member = factories.member()
    run = factories.run(of=member.workspace)
    Metric.objects.bulk_create(Metric(run=run, step=step, values={"loss": float(step)}) for step in range(1, 301))
    address = reverse("v1:run_metrics", args=[run.pk])
    points = client.get(address, {"most": 10}, **bearer(member)).json()
    assert len(points) == 10
    assert points[0] == {"step": 30, "values": {"loss": 15.5}}  # the mean of 1 to 30
    assert client.get(address, {"after": 298}, **bearer(member)).json() == [
        {"step": 299, "values": {"loss": 299.0}},
        {"step": 300, "values": {"loss": 300.0}},
    ]
    assert client.get(address, {"most": 0}, **bearer(member)).status_code == 400


def test_no_evaluation_of_a_very_long_run_is_left_out():
    run = factories.run()
    Metric.objects.bulk_create(
        Metric(run=run, step=step, values={"loss": 1.0, **({"eval/loss": 2.0} if step == 777 else {})})
        for step in range(1000)
    )
    points = metric_points(
        run.pk, max_points=5
    )  # 200 steps per point, of which every 6th counts; 777 isn't one of them
    assert [point.means.get("eval/loss") for point in points] == [None, None, None, 2.0, None]


def test_a_run_is_launched_followed_and_cancelled_over_the_api(client):
    member = factories.member()
    form = form_for(member)
    body = {
        **form,
        "version": str(form["version"]),
        "base": str(form["base"]),
        "config": {"optimizer": {"max_steps": 3}},
    }
    answer = client.post(reverse("v1:runs"), json.dumps(body), "application/json", **bearer(member))
    assert answer.status_code == 201
    assert answer.json()["total_steps"] == 3
    url = answer.headers["Location"]
    assert client.get(url, **bearer(member)).headers["Retry-After"] == "2"
    assert client.post(f"{url}/cancel", **bearer(member)).json()["state"] == "cancelled"
    assert client.post(f"{url}/cancel", **bearer(member)).status_code == 409
    assert client.post(f"{url}/resume", **bearer(member)).json()["state"] == "queued"
    assert [run["id"] for run in client.get(reverse("v1:runs"), **bearer(member)).json()["results"]] == [
        answer.json()["id"]
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": {"batchsize": 1}}, {"config": "Unknown field. Known fields"}),
        ({"algorithm": "ppo"}, {"algorithm": "“ppo” isn't one of the choices"}),
        ({"base": None}, {"base": "starts from a model"}),
    ],
)
def test_the_api_names_what_it_refuses(client, change, message):
    member = factories.member()
    form = form_for(member)
    body = {**form, "version": str(form["version"]), "base": str(form["base"]), **change}
    answer = client.post(reverse("v1:runs"), json.dumps(body), "application/json", **bearer(member))
    assert answer.status_code == 400
    for field, words in message.items():
        assert (words if isinstance(words, str) else next(iter(words.values()))) in str(answer.json()["fields"][field])


def test_reviewers_cannot_launch_over_the_api(client):
    reviewer = factories.member(Role.REVIEWER)
    assert client.post(reverse("v1:runs"), "{}", "application/json", **bearer(reviewer)).status_code == 404


def test_a_finished_run_leads_to_what_it_made(client, researcher):
    policy = factories.policy(of=researcher.workspace, kind=Policy.Kind.MODEL)
    run = factories.run(of=researcher.workspace, state=Run.State.FINISHED, finished_at=now(), result=policy)
    assert (
        reverse("policies:policy", args=[policy.pk])
        in client.get(reverse("training:run", args=[run.pk])).content.decode()
    )


def test_rollouts_start_from_their_form(client, researcher):
    policy = factories.policy(of=researcher.workspace)
    body = {
        "policy": policy.pk,
        "environment": "office",
        "split": "train",
        "count": 4,
        "samples": 2,
        "temperature": 1,
        "tool_calls": "react",
        "steps": 30,
        "seed": 9,
    }
    answer = client.post(reverse("training:new_rollouts"), body)
    batch = RolloutBatch.objects.get()
    assert answer.headers["Location"] == reverse("training:rollouts", args=[batch.pk])
    assert (batch.total, batch.config["tasks"]["split"], batch.config["tasks"]["seed"]) == (8, "train", 9)
    assert (batch.config["tool_calls"], batch.config["budget"]) == ("react", {"steps": 30})
    assert client.post(reverse("training:new_rollouts"), {**body, "count": 0}).status_code == 422


def test_alarms_stand_at_the_top_of_the_page(client, researcher):
    run = factories.run(of=researcher.workspace, state=Run.State.RUNNING)
    run.events.create(kind="alarm", text="At step 40. Dead groups: in 90% of the groups <b>nothing</b> is learned.")
    page = client.get(reverse("training:live", args=[run.pk])).content.decode()
    assert 'class="notice attention"' in page
    assert "At step 40. Dead groups: in 90% of the groups &lt;b&gt;nothing" in page


def test_a_run_may_be_asked_to_pause_on_alarms(client, researcher):
    client.post(reverse("training:new"), form_for(researcher, pause_on_alarms="true"))
    assert Run.objects.get().config["pause_on_alarms"] is True


def test_a_run_begins_from_a_model_on_the_hub(client: Client, researcher: Membership):
    form = form_for(researcher, base="", hub_base="Qwen/Qwen3-0.6B")
    answer = client.post(reverse("training:new"), form)
    assert answer.status_code == 302
    run = Run.objects.get(workspace=researcher.workspace)
    assert (run.base.location, run.base.kind) == ("Qwen/Qwen3-0.6B", "model")


@pytest.mark.parametrize(
    ("hub_id", "base", "words"),
    [
        ("/models/base", "", "a hub id, such as Qwen"),
        ("../base", "", "a hub id, such as Qwen"),
        ("Qwen/Qwen3-0.6B", None, "Choose one base"),
    ],
)
def test_only_a_hub_id_and_only_one_base_is_taken(
    client: Client, researcher: Membership, hub_id: str, base: str | None, words: str
):
    form = form_for(researcher, hub_base=hub_id, **({} if base is None else {"base": base}))
    answer = client.post(reverse("training:new"), form)
    assert (answer.status_code, words in answer.content.decode()) == (422, True)
    assert not Run.objects.filter(workspace=researcher.workspace).exists()


def test_a_run_is_launched_on_a_hub_model_over_rest(client: Client, researcher: Membership):
    version = factories.dataset_version(of=researcher.workspace)
    body = {"algorithm": "dpo", "version": str(version.pk), "hub_base": "Qwen/Qwen3-0.6B"}

    def launch(**changes: str):
        sent = {**body, **changes}
        return client.post(reverse("v1:runs"), sent, content_type="application/json", **bearer(researcher))

    assert launch(hub_base="/etc").json()["fields"] == {"hub_base": [NO_HUB_ID]}
    base = factories.policy(of=researcher.workspace, kind=Policy.Kind.MODEL, location="example/base")
    assert list(launch(base=str(base.pk)).json()["fields"]) == ["hub_base"]
    answer = launch()
    assert answer.status_code == 201, answer.json()
    assert Policy.objects.get(pk=answer.json()["base"]).location == "Qwen/Qwen3-0.6B"


@pytest.mark.parametrize("name", ["training:list", "arena:list"])
def test_an_empty_list_has_one_way_on_and_its_key(client: Client, researcher: Membership, name: str) -> None:
    page = client.get(reverse(name)).content.decode()
    (way_on,) = re.findall(r'<a class="button primary"[^>]*>', page)
    assert way_on.endswith('data-key="n">')
