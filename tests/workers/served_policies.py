"""A model behind HTTP that takes over trajectories of the office environment."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice

from apps.accounts.models import Workspace
from apps.ingest.reading import read_line
from apps.policies.models import Endpoint, Policy
from apps.trajectories.imports.bulk_copy import Origin, copy_in
from apps.trajectories.imports.preparation import prepare
from apps.trajectories.models import Trajectory
from contract import jsontext
from tests import factories
from tests.trainer.environments.scripted_episodes import played
from tests.trainer.rollouts.test_server import Server, completion
from trainer.environments.office import Office


@contextmanager
def served_model() -> Iterator[Server]:
    """Alternates between two replies: at most two different actions, however many are sampled."""
    running = Server()
    answers = ["It is done.", "It cannot be done."]
    running.reply = lambda body: (
        200,
        completion({"role": "assistant", "content": answers[len(running.requests) % 2]}),
    )
    thread = threading.Thread(target=running.http.serve_forever, daemon=True)
    thread.start()
    yield running
    running.http.shutdown()
    running.http.server_close()


def policy_on(server: Server, *, of: Workspace) -> Policy:
    endpoint = Endpoint.objects.create(workspace=of, name="here", base_url=server.url)
    return factories.policy(of=of, kind=Policy.Kind.ENDPOINT, endpoint=endpoint, location="m", name="the served one")


def office_run(*, of: Workspace) -> Trajectory:
    """A rollout of the careless script at the first task of the office, stored as an import would store it."""
    [task] = islice(Office.tasks(levels=("L1",), split="train", seed=3), 1)
    with ThreadPoolExecutor(1) as elsewhere:  # browser tests have an event loop in this thread
        run = elsewhere.submit(played, Office, task, "careless").result()
    line = jsontext.dumps(run.to_json())
    record = read_line(line)
    prepared = prepare(record, line)
    copy_in([prepared], Origin(workspace_id=of.pk, source="retrace"))
    return Trajectory.objects.get(pk=prepared.id)
