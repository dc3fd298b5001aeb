"""Every setting of every algorithm can be set over REST and on the page and arrives in run.json, or is declared as an exception."""

import json
from typing import Annotated, Any, Literal

import pytest
from django.test import Client
from django.urls import reverse
from pydantic import Field

from apps.accounts.api_tokens import issue_token
from apps.accounts.models import Membership, Role
from apps.policies.models import Endpoint, Policy
from apps.training.forms.runs import RunForm
from apps.training.forms.settings import form_name
from apps.training.forms.terms import TERMS
from apps.training.models import Run
from contract import configs
from contract.configs import TRAINING_CONFIGS, DpoConfig
from contract.configs.declaration import Setting
from contract.configs.fields import ConfigField, fields_of, settable_fields
from contract.configs.paths import nested, written
from contract.configs.schema import launch_schema
from tests import factories
from trainer.failures import ConfigFailure
from workers.bridge.configs import training_config

pytestmark = pytest.mark.django_db

ROWS = {"sft": "demonstrations", "kto": "unpaired", "process_reward_model": "steps"}
FITTING: dict[str, Any] = {
    "optimizer.batch_size": 6,
    "optimizer.gradient_accumulation": 2,
    "samples": 3,
    "loss": None,
    "label_smoothing": 0.2,
    "model.scratch.hidden": 160,
    "model.scratch.heads": 5,
    "tasks.environment": "code",
    "tasks.levels": ["L1", "L2"],
}
"""Values that fit together, for settings where not every value does."""
LOSSES = {"dpo": "robust", "kto": "apo_zero_unpaired", "grpo": "dr_grpo"}


@pytest.fixture(autouse=True)
def _no_worker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.training.views.runs.CHECK_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr("apps.training.api.runs.CHECK_PATIENCE_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def _reports_to_mlflow(settings: Any) -> None:
    settings.TRACKERS = ["mlflow"]


@pytest.fixture
def researcher(client: Client) -> Membership:
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


def another_value(field: ConfigField, algorithm: str) -> Any:
    """A valid value other than the default."""
    if field.path == "loss":
        return LOSSES[algorithm]
    if field.path in FITTING:
        return FITTING[field.path]
    match field.kind:
        case "switch":
            return not field.default
        case "choice":
            return next(choice for choice in field.choices if choice != field.default)
        case "words":
            return ["q_proj", "v_proj"]
        case "text":
            return "another"
        case "whole":
            return field.default + 1
        case _:
            low = field.range.low or 0.0
            return round((field.default + low) / 2, 6) if field.default > low else low + 0.25


def chosen(member: Membership, algorithm: str) -> dict[str, str]:
    """What a launch of this algorithm needs besides its settings; with adapters, and from scratch if possible."""
    known = {"algorithm": algorithm, "preset": "standard", "method": "lora", "name": "all of it"}
    if algorithm not in Run.ONLINE:
        version = factories.dataset_version(of=member.workspace, row_type=ROWS.get(algorithm, "preference"))
        known["version"] = str(version.pk)
    if algorithm != "sft":
        base = factories.policy(of=member.workspace, kind=Policy.Kind.MODEL, location="example/base")
        known["base"] = str(base.pk)
    return known


def all_terms(member: Membership) -> list[dict[str, Any]]:
    """Every reward term with all of its settings."""
    of = member.workspace
    server = Endpoint.objects.create(workspace=of, name="judges", base_url="http://127.0.0.1:9/v1", key_variable="KEY")
    policies = {
        "reward_model": factories.trained_policy(of=of, kind=Policy.Kind.REWARD_MODEL),
        "process_model": factories.trained_policy(of=of, kind=Policy.Kind.PROCESS_MODEL),
        "judge": factories.policy(of=of, kind=Policy.Kind.ENDPOINT, location="judge-1", endpoint=server),
    }
    terms = []
    for number, (component, cls) in enumerate(TERMS.items()):
        term: dict[str, Any] = {"component": component}
        for field in settable_fields(cls):
            value = f"term {number}" if field.name == "name" else another_value(field, "")
            term[field.name] = str(policies[field.source].pk) if field.source else value
        terms.append(term)
    return terms


def value_at(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = config[name]
    return config


def run_json(run: Run, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The file that the worker writes for the run."""
    monkeypatch.setattr("workers.bridge.configs.model_source", lambda policy, **_: configs_folder(policy))
    files = {} if run.version is None else {"train": "train.jsonl", "validation": None}
    return training_config(run, files=files).to_json()


def configs_folder(policy: Policy) -> Any:
    from django.conf import settings

    return settings.RUNS_DIR / str(policy.pk)


@pytest.mark.parametrize("algorithm", TRAINING_CONFIGS)
@pytest.mark.parametrize("door", ["rest", "page"])
def test_every_setting_arrives_in_run_json(client, researcher, monkeypatch, algorithm: str, door: str):
    fields = [field for field in settable_fields(TRAINING_CONFIGS[algorithm]) if field.kind != "terms"]
    values = {field.path: another_value(field, algorithm) for field in fields}
    terms = all_terms(researcher) if algorithm in ("grpo", "rloo") else []
    body = chosen(researcher, algorithm)
    if door == "rest":
        config = nested(values) | ({"rewards": {"terms": terms}} if terms else {})
        secret = issue_token(membership=researcher, name="tests").secret
        answer = client.post(
            reverse("v1:runs"),
            json.dumps({**body, "config": config}),
            "application/json",
            HTTP_AUTHORIZATION=f"Bearer {secret}",
        )
        assert answer.status_code == 201, answer.content
    else:
        sent = {form_name(path): written(value) for path, value in values.items()}
        for term in terms:
            sent |= {f"term-{term['component']}-{name}": written(value) for name, value in term.items()}
        answer = client.post(reverse("training:new"), {**body, **sent})
        assert answer.status_code == 302, answer.context["form"].errors
    stored = run_json(Run.objects.get(name="all of it"), monkeypatch)
    for path, value in values.items():
        assert value_at(stored, path) == value, path
    for term, stored_term in zip(terms, stored.get("rewards", {}).get("terms", []), strict=True):
        assert stored_term == {**stored_term, **term}


@pytest.mark.parametrize("algorithm", TRAINING_CONFIGS)
def test_what_people_cannot_set_says_why_and_is_refused(client, researcher, algorithm: str):
    secret = issue_token(membership=researcher, name="tests").secret
    closed = [field for field in fields_of(TRAINING_CONFIGS[algorithm]) if field.internal]
    body = chosen(researcher, algorithm) | {"config": nested({field.path: field.default for field in closed})}
    answer = client.post(
        reverse("v1:runs"), json.dumps(body), "application/json", HTTP_AUTHORIZATION=f"Bearer {secret}"
    )
    problems = answer.json()["fields"]["config"]
    assert answer.status_code == 400
    for field in closed:
        assert len(field.internal) > 10
        assert field.internal in str(problems)


def test_the_page_shows_the_presets_values_behind_empty_fields(client, researcher):
    small = factories.policy(
        of=researcher.workspace, kind=Policy.Kind.MODEL, location="example/base", settings={"parameters": 700_000}
    )
    page = client.get(reverse("training:new"), {"algorithm": "grpo", "base": small.pk, "preset": "quick"})
    form = page.context["form"]
    assert form["optimizer-learning_rate"].field.widget.attrs["placeholder"] == "0.0003"
    assert form["sampling-max_new_tokens"].field.widget.attrs["placeholder"] == "48"
    assert form["optimizer-max_steps"].field.widget.attrs["placeholder"] == "20"
    assert ("", "Preset: off") in form["pause_on_alarms"].field.choices
    assert [term.component for term in form.terms if term.weight.value()] == ["outcome"]


def test_another_algorithm_brings_its_own_settings_and_keeps_what_was_filled_in(client, researcher):
    filled_in = {"algorithm": "kto", "preset": "standard", "method": "full", "optimizer-batch_size": "6"}
    fragment = client.post(reverse("training:settings"), filled_in).content.decode()
    assert 'name="desirable_weight"' in fragment
    assert 'name="label_smoothing"' not in fragment
    assert 'name="lora-rank"' not in fragment
    assert 'value="6"' in fragment
    assert "errorlist" not in fragment


def test_the_settings_of_a_run_are_for_researchers(client, researcher):
    client.force_login(factories.member(Role.REVIEWER, of=researcher.workspace).user)
    assert client.post(reverse("training:settings"), {}).status_code == 404


def test_a_wrong_setting_is_named_at_its_field(client, researcher):
    form = RunForm({**chosen(researcher, "dpo"), "optimizer-epochs": "1000"}, member=researcher)
    assert not form.is_valid()
    assert form.errors == {"optimizer-epochs": ["Got 1000.0, expected 0.01 to 100."]}


def test_only_trackers_of_this_installation_can_be_reported_to(client, researcher, settings, monkeypatch):
    launch = chosen(researcher, "dpo")
    page = client.get(reverse("training:new"), {"algorithm": "dpo"}).context["form"]
    assert [value for value, _ in page["tracker"].field.choices] == ["", "none", "mlflow"]
    secret = issue_token(membership=researcher, name="tests").secret
    body = json.dumps({**launch, "config": {"tracker": "wandb"}})
    answer = client.post(reverse("v1:runs"), body, "application/json", HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert answer.status_code == 400
    assert "Got 'wandb', expected 'none' or 'mlflow'." in str(answer.json()["fields"]["config"])
    run = factories.run(of=researcher.workspace, algorithm="dpo", config={"tracker": "mlflow"})
    settings.TRACKERS = []
    assert "tracker" not in client.get(reverse("training:new"), {"algorithm": "dpo"}).context["form"].fields
    with pytest.raises(ConfigFailure, match="doesn't report to mlflow"):
        run_json(run, monkeypatch)


class PatientDpoConfig(DpoConfig):
    """What adding a setting takes: the one line below and its docstring."""

    kind: Literal["dpo"] = "dpo"
    patience: Annotated[int, Field(ge=1, le=9), Setting(unit="steps", basic=True)] = 3
    """Evaluations without progress before the run stops."""


def test_a_setting_is_added_in_one_place(client, researcher, monkeypatch):
    monkeypatch.setitem(configs.TRAINING_CONFIGS, "dpo", PatientDpoConfig)
    monkeypatch.setitem(configs.RUN_CONFIGS, "dpo", PatientDpoConfig)
    body = chosen(researcher, "dpo")
    page = client.get(reverse("training:new"), {"algorithm": "dpo"}).content.decode()
    assert "Patience (steps)" in page
    assert "Evaluations without progress before the run stops." in page
    schema = launch_schema(PatientDpoConfig)["properties"]["patience"]
    assert (schema["minimum"], schema["maximum"], schema["x-unit"]) == (1, 9, "steps")
    refused = client.post(reverse("training:new"), {**body, "patience": "12"})
    assert "Got 12, expected 1 to 9." in refused.content.decode()
    client.post(reverse("training:new"), {**body, "patience": "5"})
    assert run_json(Run.objects.get(), monkeypatch)["patience"] == 5
