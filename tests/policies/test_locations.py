"""Which models a workspace may load: those of its own runs, hub models by id, and allowed folders. Nothing else, however it's written."""

import os
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership
from apps.policies.locations import HubModel, LocationRefused, checked_location, model_source
from apps.policies.models import Policy, Publication
from apps.training.models import Run
from apps.trajectories.models import RolloutBatch
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def theirs(settings) -> Path:
    """The folder of another workspace's run."""
    policy = factories.trained_policy()
    run = Path(settings.RUNS_DIR) / str(policy.made_by.pk)
    (run / "model").mkdir(parents=True)
    (run / "model" / "config.json").write_text("{}")
    return run


@pytest.fixture
def roots(settings, tmp_path: Path) -> Path:
    """An allowed folder of models, with one model in it."""
    (tmp_path / "models" / "base").mkdir(parents=True)
    (tmp_path / "models" / "base" / "config.json").write_text("{}")
    settings.MODEL_ROOTS = [tmp_path / "models"]
    return tmp_path / "models"


def spellings(theirs: Path) -> list[str]:
    """Paths to another workspace's model, written in all ways that somebody who knows them might try."""
    relative = f"{theirs.name}/model"
    return [
        relative,
        str(theirs / "model"),
        f"{theirs}/./model",
        f"/{theirs}/model",
        f"./{relative}",
        f"../{relative}",
        f"~/{relative}",
        f"file://{theirs}/model",
        f"models/../{relative}",
        str(theirs / "model") + "\0",
    ]


def planted(location: str, workspace) -> Policy:
    """A row that wasn't created through a form."""
    return factories.policy(of=workspace, kind=Policy.Kind.MODEL, location=location.replace("\0", ""))


def test_no_spelling_of_another_workspaces_model_leads_to_it(theirs: Path, roots: Path):
    workspace = factories.workspace()
    for spelled in [*spellings(theirs), f"{roots}/../runs/{theirs.name}/model", f"{roots}/base/../../runs"]:
        policy = planted(spelled, workspace)
        try:
            source = model_source(policy, workspace_id=workspace.pk)
        except LocationRefused:
            continue
        assert source == HubModel(f"{theirs.name}/model"), spelled  # which the hub doesn't have


def test_a_root_above_the_runs_does_not_open_them(theirs: Path, settings, tmp_path: Path):
    settings.MODEL_ROOTS = [tmp_path]
    settings.PUBLISHED_DIR = tmp_path / "published"
    workspace = factories.workspace()
    (tmp_path / "published" / "elsewhere").mkdir(parents=True)
    for place in (theirs / "model", tmp_path / "published" / "elsewhere"):
        with pytest.raises(LocationRefused, match="cannot be used"):
            model_source(planted(str(place), workspace), workspace_id=workspace.pk)


def test_links_are_followed_before_anything_is_allowed(theirs: Path, roots: Path):
    workspace = factories.workspace()
    (roots / "link").symlink_to(theirs / "model")
    (roots / "base" / "model.safetensors").symlink_to(theirs / "model" / "config.json")
    for name in ("link", "base"):
        with pytest.raises(LocationRefused, match="links included"):
            model_source(planted(str(roots / name), workspace), workspace_id=workspace.pk)
    (roots / "circle").symlink_to(roots / "circle")
    with pytest.raises(LocationRefused):
        model_source(planted(str(roots / "circle"), workspace), workspace_id=workspace.pk)


def test_what_lies_outside_is_refused_in_the_same_words_whether_it_is_there_or_not(theirs: Path, roots: Path):
    workspace = factories.workspace()
    refusals = set()
    for name, place in (("there", theirs / "model"), ("gone", theirs / "nothing")):
        (roots / name).symlink_to(place)
        for spelled in (str(place), str(roots / name)):
            with pytest.raises(LocationRefused) as refused:
                model_source(planted(spelled, workspace), workspace_id=workspace.pk)
            refusals.add(str(refused.value).replace(spelled, "…"))
    assert len(refusals) == 1


def test_what_may_be_loaded_is(roots: Path, settings):
    workspace = factories.workspace()
    of = {"workspace_id": workspace.pk}
    assert model_source(planted(str(roots / "base"), workspace), **of) == roots / "base"
    assert model_source(planted("Qwen/Qwen3-0.6B", workspace), **of) == HubModel("Qwen/Qwen3-0.6B")
    trained = factories.trained_policy(of=workspace, location="/ignored")
    model = Path(settings.RUNS_DIR) / str(trained.made_by.pk) / "model"
    with pytest.raises(LocationRefused, match="left no model"):
        model_source(trained, **of)
    model.mkdir(parents=True)
    assert model_source(trained, **of) == model
    with pytest.raises(LocationRefused, match="another workspace"):
        model_source(trained, workspace_id=factories.workspace().pk)
    Run.objects.filter(result=trained).update(
        workspace=factories.workspace()
    )  # created without a form: no run of its workspace made it
    with pytest.raises(LocationRefused, match="cannot be used"):
        model_source(Policy.objects.get(pk=trained.pk), **of)


def test_a_hub_id_stays_one_beside_a_folder_of_that_name(theirs: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(theirs.parent)
    assert os.path.isdir(f"{theirs.name}/model")
    assert checked_location(f"{theirs.name}/model") == f"{theirs.name}/model"
    workspace = factories.workspace()
    source = model_source(planted(f"{theirs.name}/model", workspace), workspace_id=workspace.pk)
    assert isinstance(source, HubModel)


def test_an_outsider_reaches_nothing_over_pages_and_rest(client: Client, theirs: Path, roots: Path):
    member = factories.member()
    client.force_login(member.user)
    key = {"HTTP_AUTHORIZATION": f"Bearer {factories.token(member)}"}
    for spelled in spellings(theirs)[1:]:
        form = {"kind": "model", "name": "mine", "location": spelled}
        assert client.post(reverse("policies:new"), form).status_code == 422, spelled
        policy = planted(spelled, member.workspace)
        refuse_everything(client, member, policy, key)
    assert not Policy.objects.filter(name="mine").exists()
    assert not RolloutBatch.objects.exists()
    assert not Run.objects.filter(workspace=member.workspace, base__isnull=False).exists()
    assert not Publication.objects.exists()


def refuse_everything(client: Client, member: Membership, policy: Policy, key: dict[str, str]) -> None:
    """Try to train from it, roll it out, and publish it, on pages and over REST."""
    json = {"content_type": "application/json", **key}
    body = {"algorithm": "grpo", "base": str(policy.pk)}
    trained = client.post(reverse("v1:runs"), body, **json)
    assert trained.status_code == 400, trained.content
    assert trained.json()["detail"].startswith("base: "), trained.content
    played = client.post(reverse("v1:rollouts"), {"policy": str(policy.pk), "environment": "office"}, **json)
    assert played.status_code == 400, played.content
    published = client.post(reverse("v1:publications", args=[policy.pk]), {"way": "folder", "name": "x"}, **json)
    assert published.status_code == 400, published.content
    assert client.post(reverse("policies:publish", args=[policy.pk]), {"way": "folder", "name": "x"}).status_code == 404
    page = client.post(reverse("training:new"), {"algorithm": "grpo", "base": policy.pk, "name": "x"})
    assert page.status_code == 422
    page = client.post(reverse("training:new_rollouts"), {"policy": policy.pk, "environment": "office"})
    assert page.status_code == 422


def test_only_the_folder_that_a_publication_wrote_is_downloaded(client: Client, theirs: Path, settings, tmp_path: Path):
    settings.PUBLISHED_DIR = tmp_path / "published"
    member = factories.member()
    client.force_login(member.user)
    publication = Publication.objects.create(
        workspace=member.workspace,
        policy=factories.trained_policy(of=member.workspace),
        way="folder",
        name="office",
        state="live",
        live_at="2026-01-02T12:00Z",
    )
    (tmp_path / "published").mkdir()
    link = tmp_path / "published" / publication.pk.hex
    link.symlink_to(theirs)
    for location in (theirs, tmp_path / "published", link, "/"):
        Publication.objects.update(location=str(location))
        assert client.get(reverse("policies:download", args=[publication.pk])).status_code == 404, location


def test_a_policy_of_an_earlier_release_loses_the_text_and_keeps_its_model():
    from importlib import import_module

    from django.apps import apps

    migration = import_module("apps.training.migrations.0003_results_are_found_by_their_run")
    trained = factories.trained_policy(location="somewhere/model")
    typed = factories.policy(kind=Policy.Kind.MODEL, location="Qwen/Qwen3-0.6B")
    migration.forget_locations(apps, None)
    assert Policy.objects.get(pk=trained.pk).location == ""
    assert Policy.objects.get(pk=typed.pk).location == "Qwen/Qwen3-0.6B"
    migration.remember_locations(apps, None)
    assert Policy.objects.get(pk=trained.pk).location == f"{trained.made_by.pk}/model"
