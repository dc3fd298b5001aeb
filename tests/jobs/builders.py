"""Creates a waiting job of each kind."""

from collections.abc import Callable
from uuid import uuid4

from apps.accounts.models import Workspace
from apps.annotation.models import Annotator, Continuation, Judge, JudgePrompt
from apps.datasets.models import Dataset, Version
from apps.datasets.recipe import Recipe
from apps.jobs.models import Job
from apps.policies.models import Policy, Publication
from apps.removal.models import Removal
from apps.trajectories.models import ImportBatch, RolloutBatch
from apps.transfer.models import Export, Import
from tests import factories


def training_run(of: Workspace) -> Job:
    return factories.run(of=of)


def rollouts(of: Workspace) -> Job:
    return RolloutBatch.objects.create(workspace=of, policy=factories.policy(of=of), environment="office", total=6)


def an_import(of: Workspace) -> Job:
    return ImportBatch.objects.create(workspace=of, filename="runs.jsonl", size=2048)


def version(of: Workspace) -> Job:
    dataset = Dataset.objects.create(workspace=of, name=f"shop {Dataset.objects.count()}")
    return Version.objects.create(
        workspace=of, dataset=dataset, number=1, recipe=Recipe(queues=(str(uuid4()),)).to_json()
    )


def publication(of: Workspace) -> Job:
    name = f"office-{Publication.objects.count()}"
    return Publication.objects.create(workspace=of, policy=factories.policy(of=of), way="folder", name=name)


def continuation(of: Workspace) -> Job:
    run = factories.trajectory(of=factories.task(of=of))
    model = factories.policy(of=of, kind=Policy.Kind.MODEL, location="x")
    return Continuation.objects.create(workspace=of, trajectory=run, index=0, policy=model, count=4)


def judge(of: Workspace) -> Job:
    policy = factories.policy(of=of, kind=Policy.Kind.REWARD_MODEL)
    annotator = factories.annotator(of=of, kind=Annotator.Kind.MODEL, policy=policy)
    created = Judge.objects.create(workspace=of, queue=factories.queue(of=of), annotator=annotator, mode="prelabel")
    JudgePrompt.objects.create(judge=created, version=1, text="Prefer what works.")
    return created


def removal(of: Workspace) -> Job:
    return Removal.objects.create(workspace=of, thing="trajectory", target=uuid4(), title="refund-17")


def workspace_export(of: Workspace) -> Job:
    return Export.objects.create(workspace=of)


def workspace_import(of: Workspace) -> Job:
    return Import.objects.create(workspace=of, filename="workspace.zip")


MAKERS: dict[str, Callable[[Workspace], Job]] = {
    "training_runs": training_run,
    "rollouts": rollouts,
    "imports": an_import,
    "versions": version,
    "publications": publication,
    "continuations": continuation,
    "removals": removal,
    "judges": judge,
    "workspace_exports": workspace_export,
    "workspace_imports": workspace_import,
}
"""By the name of the kind."""
