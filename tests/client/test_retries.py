"""Which requests are retried after a failure."""

from __future__ import annotations

import time

import pytest
from retrace import (
    Client,
    Conflict,
    NotAuthorized,
    NotFound,
    RequestRefused,
    Retries,
    ServerUnreachable,
    UnexpectedAnswer,
)

from apps.accounts.models import Workspace
from apps.datasets.models import Dataset
from apps.training.models import Run
from tests import factories
from tests.client.network import Network, answer_lost, refused
from tests.live import LiveStack


def test_a_read_is_repeated_until_the_server_answers(far_client: Client, network: Network) -> None:
    network.fail = [refused(502), refused(503), answer_lost, refused(504), refused(429)]
    assert list(far_client.datasets.list()) == []
    assert len(network.seen) == 6


def test_it_gives_up_after_as_many_attempts_as_it_was_told(far_client: Client, network: Network) -> None:
    network.fail = [refused(503)] * 10
    with pytest.raises(RequestRefused, match=r"503 \(Service Unavailable\) without saying why") as refusal:
        list(far_client.datasets.list())
    assert (refusal.value.status, refusal.value.request, len(network.seen)) == (503, "GET /datasets", 6)


def test_retry_after_is_obeyed(far_client: Client, network: Network) -> None:
    network.fail = [refused(429, Retry_After="1")]
    began = time.monotonic()
    list(far_client.datasets.list())
    assert time.monotonic() - began >= 1.0


def test_a_wait_that_is_too_long_is_left_to_the_caller(far_client: Client, network: Network) -> None:
    network.fail = [refused(503, Retry_After="3600")]
    with pytest.raises(RequestRefused) as refusal:
        list(far_client.datasets.list())
    assert (refusal.value.retry_after, len(network.seen)) == (3600, 1)


def test_an_action_whose_answer_was_lost_is_repeated_and_done_once(
    far_client: Client, network: Network, workspace: Workspace
) -> None:
    run = factories.run(of=workspace, state=Run.State.QUEUED)
    network.fail = [answer_lost, answer_lost]
    assert far_client.runs.cancel(str(run.pk)).state == "cancelled"
    assert len(set(network.idempotency_keys())) == 1
    with pytest.raises(Conflict):  # a new call is a different request
        far_client.runs.cancel(str(run.pk))


def test_an_action_that_was_turned_away_is_repeated(far_client: Client, network: Network, workspace: Workspace) -> None:
    run = factories.run(of=workspace, state=Run.State.QUEUED)
    network.fail = [refused(429)]
    assert far_client.runs.cancel(str(run.pk)).state == "cancelled"


def test_each_creation_has_a_key_of_its_own_which_its_repetitions_keep(far_client: Client, network: Network) -> None:
    network.fail = [refused(429)]
    far_client.datasets.create(name="One")
    far_client.datasets.create(name="Two")
    first, again, second = network.idempotency_keys()
    assert first == again != second
    assert Dataset.objects.count() == 2


def test_an_answer_that_cannot_be_unpacked_is_asked_for_again(far_client: Client, network: Network) -> None:
    network.fail = [refused(200, Content_Encoding="gzip")]
    assert list(far_client.datasets.list()) == []
    assert len(network.seen) == 2


def test_a_creation_whose_answer_was_lost_is_repeated_and_made_once(far_client: Client, network: Network) -> None:
    network.fail = [answer_lost]
    made = far_client.datasets.create(name="One")
    assert made.id == str(Dataset.objects.get().pk)


def test_a_creation_that_is_still_in_progress_is_waited_for(far_client: Client, network: Network) -> None:
    network.fail = [refused(409, Retry_After="1")]
    assert far_client.datasets.create(name="One").name == "One"
    assert len(set(network.idempotency_keys())) == 1
    network.fail = [refused(409)]
    with pytest.raises(Conflict):  # the state of something doesn't allow it
        far_client.datasets.create(name="Two")


def test_nobody_there(free_port: int) -> None:
    with (
        Client(f"http://127.0.0.1:{free_port}", "rt_x", retries=Retries(most=1, first_seconds=0.01)) as client,
        pytest.raises(ServerUnreachable, match=r"GET /datasets was sent 2 times without an answer: .*refused"),
    ):
        list(client.datasets.list())


def test_the_servers_own_words_are_raised(client: Client, live_stack: LiveStack) -> None:
    with pytest.raises(NotFound) as missing:
        client.datasets.read("00000000-0000-7000-8000-000000000000")
    assert missing.value.status == 404
    with pytest.raises(RequestRefused) as invalid:
        client.datasets.create(name="")
    assert (invalid.value.status, list(invalid.value.fields)) == (400, ["name"])
    assert str(invalid.value) == f"name: {invalid.value.fields['name'][0]}"
    with Client(live_stack.url, "rt_unknown") as stranger, pytest.raises(NotAuthorized):
        list(stranger.datasets.list())
    dataset = client.datasets.create(name="Empty")
    queue = factories.queue(of=Dataset.objects.get().workspace)
    with pytest.raises(Conflict, match=r"no rows|No rows|nothing") as none:
        client.versions.freeze(dataset.id, queues=[str(queue.pk)])
    assert none.value.status == 409


def test_another_server_is_recognized(network: Network, far_client: Client) -> None:
    network.fail = [refused(200), refused(301, Location="https://retrace.example.org/")]
    with pytest.raises(UnexpectedAnswer, match=r"isn't what this client reads: no JSON: Expecting value"):
        list(far_client.datasets.list())
    with pytest.raises(UnexpectedAnswer, match=r"redirects GET /datasets to https://retrace.example.org/"):
        list(far_client.datasets.list())


@pytest.mark.parametrize(
    ("url", "token", "expected"),
    [
        ("retrace.example.org", "rt_x", "'retrace.example.org' isn't one"),
        ("", "rt_x", "none is given. Set RETRACE_URL"),
        ("https://retrace.example.org", "", "Create one under Settings → API tokens"),
        ("https://retrace.example.org", "rt_x\nHost: other", "characters that no token has"),
    ],
)
def test_what_cannot_be_an_address_or_a_token_is_refused_at_once(
    url: str, token: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RETRACE_URL", raising=False)
    monkeypatch.delenv("RETRACE_TOKEN", raising=False)
    with pytest.raises(ValueError, match=expected):
        Client(url, token)


def test_the_token_is_not_shown() -> None:
    with Client("https://retrace.example.org/api/v1/", "rt_secret") as client:
        assert repr(client) == "Client('https://retrace.example.org')"


@pytest.mark.parametrize("wrong", ["", "..", "."])
def test_an_id_that_would_lead_elsewhere_is_refused(wrong: str) -> None:
    with Client("https://retrace.example.org", "rt_x") as client, pytest.raises(ValueError, match="isn't an id"):
        client.runs.read(wrong)
