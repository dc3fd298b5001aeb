"""Policies that weren't made by a run here, and the pages that show where policies come from."""

from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.api_tokens import issue_token
from apps.accounts.models import AuditEntry, Role
from apps.policies.models import Endpoint, Policy
from apps.policies.promotions import promote
from apps.policies.registration import (
    BadEndpoint,
    NameTaken,
    NoSuchPlace,
    register_model,
    register_script,
    register_served,
    register_server,
)
from apps.policies.reports import calibration_of, report_rows
from apps.training.models import Run
from apps.trajectories.models import RolloutBatch
from contract.endpoint_keys import permissions
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("location", ["Qwen/Qwen3-0.6B", "gpt2", "/models/base"])
def test_a_model_is_known_by_a_hub_id_or_a_folder(location: str, settings):
    settings.MODEL_ROOTS = [Path("/models")]
    member = factories.member()
    policy = register_model(workspace=member.workspace, name="base", location=location, by=member.user)
    assert (policy.kind, policy.location) == ("model", location)
    assert AuditEntry.objects.get(action="registered").subject == "policy base"


@pytest.mark.parametrize("location", ["", "../secrets", "a/b/c", "Qwen/../x", "https://example.org/model"])
def test_other_places_are_refused(location: str):
    member = factories.member()
    with pytest.raises(NoSuchPlace):
        register_model(workspace=member.workspace, name="base", location=location, by=member.user)


def test_a_name_is_taken_once():
    member = factories.member()
    register_script(workspace=member.workspace, name="rule", script="expert", by=member.user)
    with pytest.raises(NameTaken):
        register_script(workspace=member.workspace, name="rule", script="hasty", by=member.user)
    with pytest.raises(NoSuchPlace, match="known: expert, hasty, careless, demonstrator"):
        register_script(workspace=member.workspace, name="other", script="genius", by=member.user)


def test_a_served_model_never_gets_another_secret_of_the_worker():
    member = factories.member()
    arguments = {"workspace": member.workspace, "base_url": "http://127.0.0.1:8000/v1", "model": "m", "by": member.user}
    for variable in ("SECRET_KEY", "HF_TOKEN", "vllm_api_key"):
        with pytest.raises(BadEndpoint, match="end in _API_KEY"):
            register_served(name="served", key_variable=variable, **arguments)
    with pytest.raises(BadEndpoint, match="file:///etc/passwd"):
        register_served(name="served", **{**arguments, "base_url": "file:///etc/passwd"})


def test_a_key_is_named_only_for_a_server_that_may_have_it(settings):
    member = factories.member()
    arguments = {"workspace": member.workspace, "key_variable": "VLLM_API_KEY", "model": "m", "by": member.user}
    with pytest.raises(BadEndpoint, match=r"http://vllm:8000/v1\. .* VLLM_API_KEY=http://vllm:8000 in ENDPOINT_KEYS"):
        register_served(name="served", base_url="http://vllm:8000/v1", **arguments)
    settings.ENDPOINT_KEYS = permissions("VLLM_API_KEY=http://vllm:8000")
    with pytest.raises(BadEndpoint, match="is not sent to http://elsewhere:8000/v1"):
        register_served(name="served", base_url="http://elsewhere:8000/v1", **arguments)
    first = register_served(name="served", base_url="http://vllm:8000/v1", **arguments)
    second = register_served(name="served too", base_url="http://vllm:8000/v1", **arguments)
    assert first.endpoint == second.endpoint


@pytest.mark.parametrize(
    "address",
    ["http://vllm:8000/v1?key=1", "http://vllm:8000/v1#", "http://me:secret@vllm:8000/v1", "http://vllm:x/v1"],
)
def test_the_address_of_a_server_ends_with_its_path(address: str):
    member = factories.member()
    with pytest.raises(BadEndpoint):
        register_served(workspace=member.workspace, name="served", base_url=address, model="m", by=member.user)


def a_family() -> tuple[Policy, Policy, Policy]:
    workspace = factories.workspace()
    base = factories.policy(of=workspace, kind=Policy.Kind.MODEL, location="example/base")
    child = factories.policy(of=workspace, kind=Policy.Kind.MODEL, base=base)
    grandchild = factories.policy(of=workspace, kind=Policy.Kind.MODEL, base=child)
    for made, parent in ((child, base), (grandchild, child)):
        factories.run(of=workspace, base=parent, result=made)
    return base, child, grandchild


def test_a_policys_page_links_its_whole_descent(client: Client):
    base, child, grandchild = a_family()
    member = factories.member(of=base.workspace)
    promote(policy=child, environment="office", by=member.user, reason="It won.")
    client.force_login(member.user)
    page = client.get(reverse("policies:policy", args=[child.pk])).content.decode()
    for thing in (base, grandchild):
        assert reverse("policies:policy", args=[thing.pk]) in page
    assert reverse("training:run", args=[Run.objects.get(result=child).pk]) in page
    assert "champion of office" in page
    assert "It won." in page


def test_outsiders_and_reviewers_find_no_policy(client: Client):
    policy = factories.policy()
    for stranger in (factories.member(), factories.member(Role.REVIEWER, of=policy.workspace)):
        client.force_login(stranger.user)
        assert client.get(reverse("policies:policy", args=[policy.pk])).status_code == 404
        token = issue_token(membership=stranger, name="t").secret
        api = client.get(reverse("v1:policy", args=[policy.pk]), HTTP_AUTHORIZATION=f"Bearer {token}")
        assert api.status_code == 404


def test_rest_counts_held_out_episodes_of_all_batches(client: Client):
    member = factories.member()
    policy = factories.policy(of=member.workspace)
    for split, finished, succeeded in (("held_out", 20, 12), ("held_out", 20, 14), ("train", 50, 50)):
        RolloutBatch.objects.create(
            workspace=member.workspace, policy=policy, environment="office",
            config={"tasks": {"split": split}}, finished=finished, succeeded=succeeded,
        )  # fmt: skip
    token = issue_token(membership=member, name="t").secret
    [listed] = client.get(reverse("v1:policies"), HTTP_AUTHORIZATION=f"Bearer {token}").json()["results"]
    assert (listed["held_out_played"], listed["held_out_succeeded"]) == (40, 26)
    client.force_login(member.user)
    unplayed = client.get(reverse("v1:policy", args=[factories.policy(of=member.workspace).pk])).json()
    assert (unplayed["held_out_played"], unplayed["held_out_succeeded"]) == (0, 0)


def test_a_policy_is_registered_from_its_form(client: Client):
    member = factories.member()
    client.force_login(member.user)
    answer = client.post(reverse("policies:new"), {"kind": "model", "name": "base", "location": "Qwen/Qwen3-0.6B"})
    assert answer.headers["Location"] == reverse("policies:policy", args=[Policy.objects.get().pk])
    again = client.post(reverse("policies:new"), {"kind": "model", "name": "base", "location": "Qwen/Qwen3-0.6B"})
    assert again.status_code == 422
    assert "There is a policy called" in again.content.decode()


@pytest.mark.parametrize(
    ("kind", "missing"), [("model", ["location"]), ("scripted", ["script"]), ("endpoint", ["base_url", "location"])]
)
def test_what_a_kind_needs_is_asked_for_at_its_field(client: Client, kind: str, missing: list[str]):
    client.force_login(factories.member().user)
    assert "Model</label>" in client.get(reverse("policies:new")).content.decode()  # rather than “optional”
    answer = client.post(reverse("policies:new"), {"kind": kind, "name": "base"})
    assert answer.status_code == 422
    assert sorted(answer.context["form"].errors) == missing


def test_a_reward_models_report_says_how_far_to_trust_it():
    share = {"value": 0.9, "low": 0.8, "high": 0.95, "n": 40}
    report = {
        "held_out_accuracy": share,
        "calibration": {
            "ece": 0.042,
            "bins": [{"low": 0.5, "high": 0.55, "n": 7, "confidence": 0.52, "accuracy": 0.6}],
        },
        "length_bias": {"model_prefers_longer": {**share, "value": 0.5}, "annotators_prefer_longer": {**share, "n": 0}},
        "step_accuracy": {**share, "value": 0.75},
        "first_error": {"f1": 0.7123},
    }
    assert [(line.name, line.after) for line in report_rows(report)] == [
        ("held-out pairs ranked correctly", "90 % (80 % to 95 %) of 40"),
        ("longer trajectory preferred by the model", "50 % (80 % to 95 %) of 40"),
        ("held-out steps judged correctly", "75 % (80 % to 95 %) of 40"),
        ("expected calibration error", "4 %"),
        ("first error found, F1", "0.712"),
    ]
    assert calibration_of(report) == [(0.52, 0.6, 7)]
    assert calibration_of({}) == []


def test_a_report_reads_before_and_after():
    report = {
        "validation": {
            "before": {"loss": 0.693, "rewards/accuracies": 0.5},
            "after": {"loss": 0.41, "rewards/accuracies": 0.9},
        },
        "rows": {"train": 1200},
        "seconds": 61,
    }
    assert [tuple(line) for line in report_rows(report)] == [
        ("validation loss", "0.693", "0.41"),
        ("validation accuracy", "0.5", "0.9"),
        ("training rows used", "", "1,200"),
        ("time", "", "1 min 1 s"),
    ]


def test_each_replica_is_checked_as_the_first_server_is(settings):
    workspace = factories.workspace()
    settings.ENDPOINT_KEYS = permissions("VLLM_API_KEY=http://vllm:8000")
    first = {"workspace": workspace, "base_url": "http://vllm:8000/v1"}
    with pytest.raises(BadEndpoint, match="The key in VLLM_API_KEY is not sent to http://elsewhere:8000/v1"):
        register_server(**first, replicas=["http://elsewhere:8000/v1"], key_variable="VLLM_API_KEY")
    with pytest.raises(BadEndpoint, match="isn't an http:// or https:// address"):
        register_server(**first, replicas=["file:///etc/passwd"])
    with pytest.raises(BadEndpoint, match="is given twice"):
        register_server(**first, replicas=["http://vllm:8000/v1/"])
    with pytest.raises(BadEndpoint, match="Got 33 servers; expected 32 at most"):
        register_server(**first, replicas=[f"http://vllm:{port}/v1" for port in range(9000, 9032)])
    assert not Endpoint.objects.exists()
