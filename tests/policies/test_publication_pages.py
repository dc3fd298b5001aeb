"""Requesting publications on pages and over REST: permissions, refusals, and what is shown."""

import io
import json
import re
import tarfile
from importlib import import_module
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.db import connection
from django.db.models import CharField
from django.db.models.functions import Cast
from django.test import Client
from django.urls import reverse

from apps.accounts.api_tokens import issue_token
from apps.accounts.models import Membership, Role
from apps.policies.models import Endpoint, Policy, Publication
from apps.policies.publication import (
    BadName,
    NoAdapter,
    NoCanary,
    NoServer,
    NotPublishable,
    PublishingRefused,
    UnderWay,
    publish_policy,
    served_name,
)
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def member(client: Client) -> Membership:
    made = factories.member()
    client.force_login(made.user)
    return made


def trained(member: Membership, runs: Path, *, adapter: bool = True, canary: bool = True, name: str = "one") -> Policy:
    report = {"canary": {"sha256": "0" * 64}} if canary else {}
    policy = factories.trained_policy(of=member.workspace, name=name, report=report)
    run = runs / str(policy.made_by.pk)
    for folder, file in (("model", "config.json"), *((("adapter", "adapter_config.json"),) if adapter else ())):
        (run / folder).mkdir(parents=True)
        (run / folder / file).write_text("{}")
    return policy


def a_server(member: Membership, name: str = "vllm") -> Endpoint:
    return Endpoint.objects.create(workspace=member.workspace, name=name, base_url="http://127.0.0.1:8000/v1")


def live(policy: Policy, **fields: object) -> Publication:
    values = {"way": "folder", "name": "office", "state": "live", "live_at": "2026-01-02T12:00Z"}
    publication = Publication(workspace=policy.workspace, policy=policy, **{**values, **fields})
    publication.served_name = served_name(publication)
    publication.save(force_insert=True)
    return publication


@pytest.mark.parametrize(
    ("refusal", "weights", "changes"),
    [
        (NoAdapter, {"adapter": False}, {}),
        (NoCanary, {"canary": False}, {}),
        (BadName, {}, {"name": "../x"}),
        (NoServer, {}, {"endpoint": None}),
        (NoServer, {}, {"way": "folder"}),
    ],
)
def test_what_cannot_be_published_is_refused_by_name(
    member, settings, refusal: type[PublishingRefused], weights: dict, changes: dict
):
    arguments = {"way": "adapter", "name": "office", "endpoint": a_server(member), **changes}
    with pytest.raises(refusal):
        publish_policy(policy=trained(member, settings.RUNS_DIR, **weights), by=None, **arguments)
    assert not Publication.objects.exists()


def test_only_what_a_run_here_made_can_be_published(member):
    for fields in (
        {},
        {"kind": "model", "location": "Qwen/Qwen3-0.6B"},
        {"kind": "model", "location": "/models/model"},
    ):
        with pytest.raises(NotPublishable):
            publish_policy(policy=factories.policy(of=member.workspace, **fields), way="folder", name="x", by=None)


def test_a_name_is_published_to_once_at_a_time(member, settings, django_capture_on_commit_callbacks):
    policy = trained(member, settings.RUNS_DIR)
    with django_capture_on_commit_callbacks() as sent:
        publish_policy(policy=policy, way="folder", name="office", by=None)
    assert len(sent) == 1
    with pytest.raises(UnderWay):
        publish_policy(policy=policy, way="folder", name="office", by=None)
    publish_policy(policy=policy, way="folder", name="other", by=None)


def test_a_policy_is_published_from_its_page(client: Client, member, settings):
    policy = trained(member, settings.RUNS_DIR)
    page = client.get(reverse("policies:policy", args=[policy.pk])).content.decode()
    assert reverse("policies:publish", args=[policy.pk]) in page
    address = reverse("policies:publish", args=[policy.pk])
    assert "swapped while the server runs" in client.get(address).content.decode()
    refused = client.post(address, {"way": "adapter", "name": "office", "base_url": "127.0.0.1"})
    assert refused.status_code == 422
    assert "t an http:// or https:// address" in refused.content.decode()
    answer = client.post(address, {"way": "adapter", "name": "office", "base_url": "http://127.0.0.1:8000/v1"})
    assert answer.headers["Location"] == reverse("policies:policy", args=[policy.pk])
    page = client.get(answer.headers["Location"]).content.decode()
    assert "every 2s" in page
    assert Publication.objects.get().endpoint == Endpoint.objects.get()


def test_a_run_of_all_weights_offers_no_adapter(client: Client, member, settings):
    small = trained(member, settings.RUNS_DIR, name="small")
    whole = trained(member, settings.RUNS_DIR, name="whole", adapter=False)
    ways = [
        re.findall(
            r'name="way" value="(\w+)"', client.get(reverse("policies:publish", args=[policy.pk])).content.decode()
        )
        for policy in (small, whole)
    ]
    assert ways == [["folder", "adapter", "restart"], ["folder", "restart"]]


def test_a_refusal_of_the_canary_is_shown_with_its_figures(client: Client, member, settings):
    policy = trained(member, settings.RUNS_DIR)
    canary = {"finding": "base_answers", "to_policy": 0.31, "to_base": 0.002, "apart": 0.3}
    live(
        policy,
        state="refused",
        live_at=None,
        canary=canary,
        failure={"message": "The base model answers under this name."},
    )
    page = client.get(reverse("policies:policy", args=[policy.pk])).content.decode()
    for words in (
        "Refused by the canary",
        "The base model answers",
        "0.31 nats from the policy",
        "Publications",
    ):
        assert words in page
    assert "every 2s" not in page


def test_rolling_back_is_one_click_and_offered_where_something_was_before(client: Client, member, settings):
    one, two = (trained(member, settings.RUNS_DIR, name=name) for name in ("one", "two"))
    live(two, name="else", way="adapter", endpoint=a_server(member))  # another name, and another server
    first = live(one)
    page = client.get(reverse("policies:policy", args=[one.pk])).content.decode()
    assert reverse("policies:roll_back_publication", args=[first.pk]) not in page
    Publication.objects.filter(pk=first.pk).update(state="replaced")
    now_live = live(two, live_at="2026-01-03T12:00Z")
    address = reverse("policies:roll_back_publication", args=[now_live.pk])
    assert address in client.get(reverse("policies:policy", args=[two.pk])).content.decode()
    assert client.post(address).headers["Location"] == reverse("policies:policy", args=[one.pk])
    back = Publication.objects.get(state="waiting")
    assert (back.policy, back.is_rollback, back.by) == (one, True, member.user)


def test_a_published_folder_is_downloaded_whole(client: Client, member, settings, tmp_path: Path):
    settings.PUBLISHED_DIR = tmp_path / "published"
    publication = live(trained(member, settings.RUNS_DIR))
    folder = settings.PUBLISHED_DIR / member.workspace.slug / "office" / publication.pk.hex
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "weights").write_bytes(b"x" * 70_000)
    (folder / "retrace.json").write_text("{}")
    Publication.objects.update(location=str(folder))
    answer = client.get(reverse("policies:download", args=[publication.pk]))

    async def body() -> bytes:
        return b"".join([block async for block in answer.streaming_content])

    with tarfile.open(fileobj=io.BytesIO(async_to_sync(body)())) as tar:
        assert tar.getnames() == ["office/retrace.json", "office/sub/weights"]
        assert len(tar.extractfile("office/sub/weights").read()) == 70_000


def test_outsiders_and_reviewers_find_nothing(client: Client, member, settings):
    policy = trained(member, settings.RUNS_DIR)
    publication = live(policy, location=str(settings.RUNS_DIR))
    for stranger in (factories.member(), factories.member(Role.REVIEWER, of=member.workspace)):
        client.force_login(stranger.user)
        token = {"HTTP_AUTHORIZATION": f"Bearer {issue_token(membership=stranger, name='t').secret}"}
        for name, what in (("publish", policy), ("publications", policy), ("download", publication)):
            assert client.get(reverse(f"policies:{name}", args=[what.pk])).status_code == 404
        assert client.post(reverse("policies:publish", args=[policy.pk])).status_code == 404
        assert client.post(reverse("policies:roll_back_publication", args=[publication.pk])).status_code == 404
        assert client.get(reverse("v1:publications", args=[policy.pk]), **token).status_code == 404
        assert client.get(reverse("v1:publication", args=[publication.pk]), **token).status_code == 404
        assert client.post(reverse("v1:publications", args=[policy.pk]), **token).status_code == 404
        assert client.post(reverse("v1:publication_roll_back", args=[publication.pk]), **token).status_code == 404
    assert Publication.objects.count() == 1


def test_a_policy_is_published_over_rest(client: Client, member, settings):
    policy = trained(member, settings.RUNS_DIR)
    token = {"HTTP_AUTHORIZATION": f"Bearer {issue_token(membership=member, name='t').secret}"}
    address = reverse("v1:publications", args=[policy.pk])
    body = {"way": "adapter", "name": "office", "server": "http://127.0.0.1:8000/v1"}
    answer = client.post(address, json.dumps(body), "application/json", **token)
    assert (answer.status_code, answer.json()["state"]) == (202, "waiting")
    refused = client.post(address, json.dumps({"way": "adapter", "name": "x"}), "application/json", **token)
    assert (refused.status_code, refused.json()["fields"]) == (400, {"server": ["Choose the server."]})
    [listed] = client.get(address, **token).json()["results"]
    assert listed["server"] == "http://127.0.0.1:8000/v1"
    one = reverse("v1:publication", args=[listed["id"]])
    assert client.get(one, **token).headers["Retry-After"] == "2"
    assert client.post(f"{one}/roll-back", **token).status_code == 409


def test_a_policy_is_published_to_several_servers(client: Client, member, settings):
    policy = trained(member, settings.RUNS_DIR)
    addresses = ["http://127.0.0.1:8000/v1", "http://127.0.0.1:8002/v1", "http://127.0.0.1:8001/v1"]
    form = {"way": "adapter", "name": "office", "base_url": " ".join(addresses)}
    answer = client.post(reverse("policies:publish", args=[policy.pk]), form, follow=True)
    assert " ".join([addresses[0], addresses[2], addresses[1]]) in answer.content.decode()
    created = Publication.objects.get()
    assert created.endpoint.addresses == [addresses[0], addresses[2], addresses[1]]
    created.delete()

    token = {"HTTP_AUTHORIZATION": f"Bearer {issue_token(membership=member, name='t').secret}"}
    body = {"way": "adapter", "name": "office", "server": addresses[0], "replicas": addresses[1:]}
    answer = client.post(reverse("v1:publications", args=[policy.pk]), json.dumps(body), "application/json", **token)
    assert answer.json()["replicas"] == [addresses[2], addresses[1]]
    publication = Publication.objects.get()
    assert publication.endpoint == Endpoint.objects.get()  # regardless of the order of the others
    assert answer.json()["served_name"] == publication.served_name == f"office-{publication.pk.hex[-12:]}"


def test_the_page_says_what_the_server_calls_the_live_policy(client: Client, member, settings):
    policy = trained(member, settings.RUNS_DIR)
    publication = live(policy, way="adapter", endpoint=a_server(member))
    page = client.get(reverse("policies:policy", args=[policy.pk])).content.decode()
    assert f"Name on the server: <code>{publication.served_name}</code>" in page


def test_what_was_published_before_gets_a_name_of_its_own_where_it_can_be_loaded_again(member, settings):
    policy = trained(member, settings.RUNS_DIR)
    adapter = live(policy, way="adapter", endpoint=a_server(member))
    whole = live(policy, way="restart", endpoint=a_server(member, "another"))
    folder = live(policy)
    Publication.objects.update(served_name=Cast("id", CharField()))
    Publication.objects.filter(pk=folder.pk).update(served_name="")
    migration = import_module("apps.policies.migrations.0008_name_what_is_served")
    migration.name_what_is_served(apps, connection)
    names = dict(Publication.objects.values_list("pk", "served_name"))
    assert names == {adapter.pk: served_name(adapter), whole.pk: "office", folder.pk: ""}


def test_an_address_too_long_to_store_is_refused(client: Client, member, settings):
    policy = trained(member, settings.RUNS_DIR)
    form = {"way": "adapter", "name": "office", "base_url": f"http://127.0.0.1:8000/{'v' * 300}"}
    answer = client.post(reverse("policies:publish", args=[policy.pk]), form)
    assert answer.status_code == 422
    assert "expected 300 at most" in answer.content.decode()


def test_an_earlier_publication_that_is_still_under_way_is_followed(client: Client, member, settings):
    policy = trained(member, settings.RUNS_DIR)
    publish_policy(policy=policy, way="adapter", name="office", endpoint=a_server(member), by=member.user)
    live(policy, name="copy")
    for name in ("policies:policy", "policies:publications"):
        answer = client.get(reverse(name, args=[policy.pk]), HTTP_HX_REQUEST="true")
        assert "every 2s" in answer.content.decode()
