"""`Client` and `AsyncClient`: all of Retrace's REST API from Python."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Generic, Self, Unpack

import httpx

from retrace.core.connection import TIMEOUT, AsyncConnection, Connection, api_token, server_url
from retrace.core.flow import Flow, work
from retrace.core.operations import C, Resource, operation
from retrace.core.request import OnProgress, Request, Upload
from retrace.core.retries import Retries
from retrace.errors import RetraceError
from retrace.export import download_file, export_rows
from retrace.hub import Pushed, push_version
from retrace.models.datasets import File, Version
from retrace.models.imports import Import
from retrace.models.sessions import NewSession
from retrace.models.transfer import Export, WorkspaceImport
from retrace.resources.datasets import Datasets, Format, Split, Versions
from retrace.resources.deletions import Deletions
from retrace.resources.episodes import Episodes
from retrace.resources.experiments import Experiments
from retrace.resources.feedback import FeedbackKeys, FeedbackOfUsers
from retrace.resources.imports import Imports
from retrace.resources.jobs import Jobs
from retrace.resources.lineage import Lineage
from retrace.resources.members import Invitations, Members
from retrace.resources.policies import Champions, Endpoints, Policies, Publications
from retrace.resources.queues import Bulk, Judges, Queues
from retrace.resources.redaction import RedactionRules
from retrace.resources.retention import RetentionRules
from retrace.resources.rollouts import Rollouts
from retrace.resources.runs import Runs
from retrace.resources.sessions import Sessions
from retrace.resources.traces import Traces
from retrace.resources.traffic_splits import TrafficSplits
from retrace.resources.trajectories import Comments, Trajectories
from retrace.resources.transfer import Exports, WorkspaceImports
from retrace.resources.usage import Prices, UsageLimitsOfWorkspace
from retrace.resources.webhooks import Webhooks
from retrace.runners import Agent, serve_agent
from retrace.sessions import Session
from retrace.uploads import Source, import_source
from retrace.wait import W, wait_for


class _Operations(Resource[C], Generic[C]):
    """Operations of both clients."""

    def __init__(self, connection: C) -> None:
        super().__init__(connection)
        self.datasets = Datasets(connection)
        self.versions = Versions(connection)
        self.imports = Imports(connection)
        self.trajectories = Trajectories(connection)
        self.comments = Comments(connection)
        self.policies = Policies(connection)
        self.publications = Publications(connection)
        self.endpoints = Endpoints(connection)
        self.champions = Champions(connection)
        self.queues = Queues(connection)
        self.judges = Judges(connection)
        self.bulk = Bulk(connection)
        self.runs = Runs(connection)
        self.rollouts = Rollouts(connection)
        self.experiments = Experiments(connection)
        self.sessions = Sessions(connection)
        self.traces = Traces(connection)
        self.traffic_splits = TrafficSplits(connection)
        self.episodes = Episodes(connection)
        self.jobs = Jobs(connection)
        self.lineage = Lineage(connection)
        self.deletions = Deletions(connection)
        self.retention_rules = RetentionRules(connection)
        self.members = Members(connection)
        self.exports = Exports(connection)
        self.workspace_imports = WorkspaceImports(connection)
        self.invitations = Invitations(connection)
        self.webhooks = Webhooks(connection)
        self.feedback = FeedbackOfUsers(connection)
        self.feedback_keys = FeedbackKeys(connection)
        self.redaction_rules = RedactionRules(connection)
        self.prices = Prices(connection)
        self.usage_limits = UsageLimitsOfWorkspace(connection)

    def session(self, **session: Unpack[NewSession]) -> Session[C]:
        """A session for one episode of an agent, opened by `with`: configure the agent's library with its `base_url` and `api_key`."""
        return Session(self._connection, session)

    @operation
    def import_(
        self,
        source: Source,
        *,
        filename: str | None = None,
        policy: str | None = None,
        idempotency_key: str | None = None,
        progress: OnProgress | None = None,
    ) -> Flow[Import]:
        """Import a file by path, or rows from any iterable; `wait` waits for the result.

        `policy` names the policy of trajectories that don't name one. Importing the same file again returns the same import.
        """
        return import_source(
            source,
            filename=filename,
            policy=policy,
            idempotency_key=idempotency_key,
            retries=self._connection.retries,
            progress=progress,
        )

    @operation
    def export(
        self,
        version: Version,
        split: Split = "train",
        *,
        to: str | os.PathLike[str],
        format: Format = "jsonl",
        progress: OnProgress | None = None,
    ) -> Flow[Path]:
        """Download a split of a frozen version to the file `to`, which appears once it's complete and its SHA-256 matches.

        After a broken connection, or in a later call, the download resumes where it stopped.
        """
        return export_rows(version, split, format, Path(to), retries=self._connection.retries, progress=progress)

    @operation
    def export_workspace(
        self, *, to: str | os.PathLike[str], include_weights: bool = False, progress: OnProgress | None = None
    ) -> Flow[Export]:
        """Export everything in the workspace as one archive, and download it to the file `to`. Needs an owner's token."""
        requested = yield from self.exports._create(
            "/workspace/exports", answer=Export, body={"include_weights": include_weights}
        )
        retries = self._connection.retries
        export = yield from wait_for(requested, retries=retries, timeout=None, progress=progress, is_checked=True)
        request = Request("GET", f"{export.path}/archive", headers={"Accept": "*/*", "Accept-Encoding": "identity"})
        file = File(rows=0, bytes=export.size, sha256=export.sha256)
        yield from download_file(request, file, Path(to), retries=retries, progress=progress)
        return export

    @operation
    def import_workspace(
        self, archive: str | os.PathLike[str], *, progress: OnProgress | None = None
    ) -> Flow[WorkspaceImport]:
        """Send the archive of a workspace, to be imported into this one, which must have no content; `wait` waits for the result."""
        file = Path(archive)
        upload = Upload(file, progress)
        request = Request("POST", "/workspace/imports", {"filename": file.name}, upload=upload)
        return (yield from self._ask(request, WorkspaceImport))

    @operation
    def load(self, version: Version, split: Split = "train") -> Flow[Any]:
        """A split of a frozen version as a `datasets.Dataset`. Needs `pip install retrace-client[datasets]`."""
        try:
            import datasets
        except ImportError as error:
            raise RetraceError("load needs the package datasets: pip install 'retrace-client[datasets]'") from error
        with tempfile.TemporaryDirectory(prefix="retrace-rows-") as folder:
            file = Path(folder) / f"{split}.parquet"
            yield from export_rows(version, split, "parquet", file, retries=self._connection.retries, progress=None)
            return (
                yield from work(lambda: datasets.Dataset.from_parquet(str(file), cache_dir=folder, keep_in_memory=True))
            )

    @operation
    def push(
        self,
        version: Version,
        to: str,
        *,
        private: bool = True,
        endpoint: str | None = None,
        progress: OnProgress | None = None,
    ) -> Flow[Pushed]:
        """Push a frozen version to `to` on a hub, OWNER/NAME: its Parquet files, its card, and their digests, in one commit with a tag.

        The hub is `endpoint`, else HF_ENDPOINT, else huggingface.co; the token is HF_TOKEN or that of `hf auth login`. `private` applies to a
        repository that this creates. Needs `pip install retrace-client[hub]`.
        """
        readme = yield from self._text(
            Request("GET", f"{version.path}/card", {"format": "markdown"}, headers={"Accept": "text/markdown"})
        )
        return (
            yield from push_version(
                version,
                to,
                readme,
                is_private=private,
                endpoint=endpoint,
                retries=self._connection.retries,
                progress=progress,
            )
        )

    @operation
    def wait(
        self, job: W, *, timeout: float | None = None, progress: OnProgress | None = None, check: bool = True
    ) -> Flow[W]:
        """Wait until an import, version, queue, training run, batch of rollouts, publication, experiment, deletion, or transfer of a workspace is over.

        Returns its last state. Raises JobFailed if it failed or was cancelled, unless `check` is False.
        """
        return wait_for(job, retries=self._connection.retries, timeout=timeout, progress=progress, is_checked=check)


class Client(_Operations[Connection]):
    """A synchronous client. Threads may share it.

    `url` and `token` default to RETRACE_URL and RETRACE_TOKEN.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: Retries | None = None,
        timeout: float | httpx.Timeout = TIMEOUT,
    ) -> None:
        self.url = server_url(url)
        super().__init__(Connection(self.url, api_token(token), retries or Retries(), timeout))

    def serve_agent(
        self,
        agent: Agent,
        *,
        environment: str | None = None,
        run: str | None = None,
        rollouts: str | None = None,
        parallel: int = 1,
        runner: str | None = None,
        until_idle: float | None = None,
    ) -> int:
        """Play episodes of training runs and rollouts with `agent`; returns how many were played.

        `agent` takes an `Episode` and returns True or False, a reward, or a dict of `success`, `reward`, `rewards`, `metadata`. It may be
        asynchronous, and runs in `parallel` threads. If it raises an exception, the episode is given back, to be played again.
        With `until_idle`, stops after that many seconds without an episode. On Ctrl-C, raises KeyboardInterrupt once the episodes in progress are over.
        """
        return serve_agent(
            self,
            agent,
            environment=environment,
            run=run,
            rollouts=rollouts,
            parallel=parallel,
            runner=runner,
            until_idle=until_idle,
        )

    def close(self) -> None:
        """Close its connections."""
        self._connection.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"


class AsyncClient(_Operations[AsyncConnection]):
    """An asynchronous client: each method is awaited, each list is iterated with `async for`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: Retries | None = None,
        timeout: float | httpx.Timeout = TIMEOUT,
    ) -> None:
        self.url = server_url(url)
        super().__init__(AsyncConnection(self.url, api_token(token), retries or Retries(), timeout))

    async def close(self) -> None:
        """Close its connections."""
        await self._connection.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"
