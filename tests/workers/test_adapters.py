"""Adapters on servers: each has a unique name and path, and is live only after verification on every server."""

import json
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from apps.accounts.models import AuditEntry
from apps.policies.models import Endpoint, Publication
from apps.policies.publication import NothingBefore, publish_policy, roll_back_publication
from tests import factories
from tests.workers.conftest import ONE, TWO, Team, done, loaded
from tests.workers.vllm_like import VllmLike
from workers.bridge.rollouts import acting_policy

pytestmark = pytest.mark.django_db
ADAPTER, RESTART = Publication.Way.ADAPTER, Publication.Way.RESTART


def test_a_proven_adapter_is_live_and_acts_under_the_name_that_servers_know(team: Team, server: VllmLike):
    one = team.policy(ONE)
    publication = team.publishes(one, ADAPTER, server)
    assert (publication.state, publication.error) == ("live", "")
    assert publication.canary["finding"] == "passed"
    assert publication.canary["to_policy"] < 0.01 < publication.canary["to_base"]
    assert publication.canary["to_fresh"] < 1e-6
    assert publication.served_name == f"office-{publication.pk.hex[-12:]}"
    assert server.adapters == loaded(team.runs, publication)
    assert AuditEntry.objects.get(action="published").subject == str(publication)
    acting = acting_policy(one, {}, team.runs / "x", workspace_id=team.member.workspace.pk)
    assert (acting["engine"], acting["url"], acting["model"]) == ("server", server.url, publication.served_name)


def test_nothing_is_ever_loaded_in_place_of_something_else(team: Team, server: VllmLike):
    first = team.publishes(team.policy(ONE), ADAPTER, server)
    second = team.publishes(team.policy(TWO), ADAPTER, server)
    third = done(roll_back_publication(publication=second, by=team.member.user))
    loads = [body for path, body in server.asked if path.endswith("/load_lora_adapter")]
    assert {(body["lora_name"], body["lora_path"]) for body in loads} == set(
        loaded(team.runs, first, second, third).items()
    )
    assert not any("load_inplace" in body for body in loads)


def test_the_old_policy_is_asked_what_the_new_one_is_asked_right_after(team: Team, server: VllmLike):
    first = team.publishes(team.policy(ONE), ADAPTER, server)
    server.asked.clear()
    second = team.publishes(team.policy(TWO), ADAPTER, server)
    requests = [
        (body["model"], tuple(body["prompt"]))
        for path, body in server.asked
        if path.endswith("/completions") and not body.get("echo") and not body.get("cache_salt")
    ]
    by_the_old, by_the_new = (
        [prompt for model, prompt in requests if model == name] for name in (first.served_name, second.served_name)
    )
    assert by_the_old == by_the_new
    assert len(by_the_old[0]) == 520


def test_a_policy_that_answers_from_the_old_ones_cache_is_refused(team: Team, server: VllmLike):
    first = team.publishes(team.policy(ONE), ADAPTER, server)
    server.mixes_up_caches = True
    refused = team.publishes(team.policy(TWO), ADAPTER, server)
    assert (refused.state, refused.canary["finding"]) == ("refused", "others_cache")
    assert refused.canary["to_policy"] < 0.01  # log-probabilities of a prompt don't reveal it
    assert refused.canary["to_fresh"] > 0.02
    assert server.adapters == loaded(team.runs, first)


def test_a_wrong_adapter_is_refused_and_what_was_live_still_answers(team: Team, server: VllmLike):
    first = team.publishes(team.policy(ONE), ADAPTER, server)
    two = team.policy(TWO)
    shutil.rmtree(team.runs / TWO / "adapter")
    shutil.copytree(team.runs / ONE / "adapter", team.runs / TWO / "adapter")  # as if somebody mixed up two folders
    refused = team.publishes(two, ADAPTER, server)
    assert (refused.state, refused.canary["finding"]) == ("refused", "other_policy")
    assert server.adapters == loaded(team.runs, first)
    assert Publication.objects.live().get().policy.made_by.pk == UUID(ONE)


def test_a_server_on_which_the_base_answers_in_silence_is_refused(team: Team, server: VllmLike):
    server.ignores_adapters = True
    refused = team.publishes(team.policy(ONE), ADAPTER, server)
    assert (refused.state, refused.canary["finding"]) == ("refused", "base_answers")
    assert refused.error.startswith("The base model answers under this name")
    assert server.adapters == {}


def test_a_server_with_another_base_is_refused(team: Team, trained: Path):
    with VllmLike(trained / "stranger") as server:
        refused = team.publishes(team.policy(ONE), ADAPTER, server)
    assert refused.canary["finding"] == "other_base"


def test_a_missing_adapter_or_server_fails_in_words(team: Team, server: VllmLike):
    one, two = team.policy(ONE), team.policy(TWO)
    publication = team.asks(one, ADAPTER, server)
    (team.runs / ONE / "adapter" / "adapter_model.safetensors").unlink()
    assert "left no adapter_model.safetensors" in done(publication).error
    server.forgets = True
    failed = team.publishes(two, ADAPTER, server)
    assert (failed.state, server.adapters) == ("failed", {})
    assert "does not exist" in failed.error
    away = Endpoint.objects.create(workspace=team.member.workspace, name="away", base_url="http://127.0.0.1:9/v1")
    publication = publish_policy(policy=two, way=ADAPTER, name="office", endpoint=away, by=None)
    assert "does not answer" in done(publication).error


def test_rolling_back_proves_the_one_before_again(team: Team, server: VllmLike):
    first = team.publishes(team.policy(ONE), ADAPTER, server)
    second = team.publishes(team.policy(TWO), ADAPTER, server)
    first.refresh_from_db()
    assert (first.state, second.state) == ("replaced", "live")
    back = done(roll_back_publication(publication=second, by=team.member.user))
    assert (back.state, back.policy, back.is_rollback) == ("live", first.policy, True)
    assert back.canary["finding"] == "passed"
    assert back.served_name not in (first.served_name, second.served_name)
    with pytest.raises(NothingBefore):
        roll_back_publication(publication=back, by=team.member.user)
    with pytest.raises(NothingBefore, match="not live any more"):
        roll_back_publication(publication=second, by=team.member.user)


def test_a_server_has_a_copy_of_the_weights_alone(team: Team, server: VllmLike):
    for name in ("mine.py", "adapter_model.bin"):
        (team.runs / ONE / "adapter" / name).write_bytes(b"not for servers")
    one = team.publishes(team.policy(ONE), ADAPTER, server)
    place = Path(loaded(team.runs, one)[one.served_name])
    before = (place / "adapter_model.safetensors").read_bytes()
    (team.runs / ONE / "adapter" / "adapter_model.safetensors").write_bytes(b"another training")
    assert (place / "adapter_model.safetensors").read_bytes() == before
    assert sorted(path.name for path in place.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]


def test_two_workspaces_share_a_server_and_a_name(team: Team, server: VllmLike):
    ours = team.publishes(team.policy(ONE), ADAPTER, server)
    others = Team(team.runs)
    shutil.copytree(team.runs / TWO, team.runs / str(UUID(int=3)))
    theirs = others.publishes(others.policy(str(UUID(int=3))), ADAPTER, server)
    assert (ours.name, theirs.name, theirs.state) == ("office", "office", "live")
    assert server.adapters == loaded(team.runs, ours, theirs)


def test_the_alias_of_a_whole_model_is_not_given_to_an_adapter(team: Team, server: VllmLike):
    whole = team.asks(team.policy(ONE), RESTART, server)
    Publication.objects.filter(pk=whole.pk).update(state="live", live_at="2026-01-01T00:00Z")
    refused = team.publishes(team.policy(TWO), ADAPTER, server)
    assert refused.error == ("'office' is a whole model, on which the server puts its adapters. Choose another name.")


def test_an_alias_that_somebody_typed_as_a_models_name_means_what_is_live(team: Team, server: VllmLike):
    live = team.publishes(team.policy(ONE), ADAPTER, server)
    place = team.endpoint(server)
    typed = factories.policy(of=team.member.workspace, kind="endpoint", location="office", endpoint=place, name="typed")
    acting = acting_policy(typed, {}, team.runs / "x", workspace_id=team.member.workspace.pk)
    assert (acting["model"], acting["published"]) == (live.served_name, True)
    typed.location = "base"
    acting = acting_policy(typed, {}, team.runs / "x", workspace_id=team.member.workspace.pk)
    assert (acting["model"], acting["published"]) == ("base", False)


def test_every_replica_proves_it_before_any_answers(team: Team, trained: Path):
    with VllmLike(trained / "base") as first, VllmLike(trained / "base") as second:
        one = team.publishes(team.policy(ONE), ADAPTER, first, second)
        assert (one.state, first.adapters, second.adapters) == ("live", *[loaded(team.runs, one)] * 2)
        acting = acting_policy(one.policy, {}, team.runs / "x", workspace_id=team.member.workspace.pk)
        assert (acting["url"], acting["replicas"]) == (first.url, [second.url])

        second.ignores_adapters = True
        refused = team.publishes(team.policy(TWO), ADAPTER, first, second)
        assert refused.state == "refused"
        assert refused.error.startswith(f"{second.url}: The base model answers")
        assert (first.adapters, second.adapters) == (loaded(team.runs, one), loaded(team.runs, one))
        assert Publication.objects.live().get() == one


def test_a_replica_that_is_away_fails_the_publication_and_the_others_forget_it(team: Team, trained: Path):
    with VllmLike(trained / "base") as first, VllmLike(trained / "base") as second:
        second.http.shutdown()
        second.http.server_close()
        failed = team.publishes(team.policy(ONE), ADAPTER, first, second)
        assert (failed.state, first.adapters) == ("failed", {})
        assert failed.error.startswith(f"{second.url} does not answer")


def test_the_report_of_the_canary_is_one_that_a_page_can_show(team: Team, server: VllmLike):
    publication = team.publishes(team.policy(ONE), ADAPTER, server)
    assert set(json.loads(json.dumps(publication.canary))) == {
        *("finding", "message", "to_policy", "to_base", "apart", "to_fresh")
    }
