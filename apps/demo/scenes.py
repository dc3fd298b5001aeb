"""The building blocks of the demo. Each creates its object once, with the same functions as the pages, and returns whether it exists and is
finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from apps.accounts.models import Membership, Workspace
from apps.annotation.kinds.pair_selection import Pairing
from apps.annotation.models import Queue
from apps.annotation.queues.queue_lifecycle import create_queue
from apps.annotation.queues.sources import Selection
from apps.annotation.refusals import NothingToCompare
from apps.arena.lifecycle import start_experiment
from apps.arena.models import Experiment
from apps.arena.stopping_rule import StoppingRule
from apps.datasets.freezing import NothingToFreeze, create_dataset, request_version
from apps.datasets.models import Dataset, Version
from apps.datasets.recipe import Recipe
from apps.demo import rule_annotators
from apps.demo.sign_ins import RESEARCHER
from apps.jobs import lifecycle
from apps.jobs.models import JobState
from apps.policies.models import Policy
from apps.training.launch import launch_run
from apps.training.models import Run
from apps.training.plan import plan_run
from apps.training.refusals import LaunchRefused
from apps.trajectories.models import RolloutBatch, Trajectory
from apps.trajectories.rollouts.rollout_batches import start_rollouts

ENVIRONMENT = "office"
MAX_TRIES = 3
"""Maximum attempts at rollouts and runs, since a temporary lack of memory mustn't end the demo."""
JUDGMENTS_AT_ONCE = 200
"""Judgments of a rule per call, so that others get their turn."""
GUIDELINES = """\
Two agents did the same office task. Which one would you rather have working for you?

- First: did it do **all** of what was asked, and nothing that was not asked?
- Then: was its approach sensible? Needless steps and failed calls count against it.
- Use *tie* when you would not mind which one you got, and *both bad* when you would want neither.
"""
DEMONSTRATION_GUIDELINES = """\
One trajectory of an office task. Should a beginner learn from it? Thumb up if it looks right from where you stand.
"""


@dataclass(frozen=True)
class Scene:
    """The workspace of the demo, and the researcher who acts in it."""

    workspace: Workspace
    researcher: Membership

    @classmethod
    def of(cls, workspace: Workspace) -> Scene:
        members = Membership.objects.select_related("user", "workspace")
        return cls(workspace, members.get(workspace=workspace, user__email=RESEARCHER.email))

    def policy(self, name: str) -> Policy | None:
        return Policy.objects.filter(workspace=self.workspace, name=name).first()


def scripted_policy(scene: Scene, name: str, description: str) -> None:
    Policy.objects.get_or_create(
        workspace=scene.workspace,
        name=name,
        defaults={"kind": Policy.Kind.SCRIPTED, "location": name, "description": description},
    )


def rollouts(
    scene: Scene, *, policy: str, split: str, count: int, seed: int, samples: int = 1, levels: Sequence[str] = ()
) -> bool:
    """Roll out a policy; true when all trajectories are stored."""
    acting = scene.policy(policy)
    if acting is None:
        return False
    batch = RolloutBatch.objects.filter(policy=acting, config__tasks__split=split).order_by("id").first()
    if batch is None:
        batch = start_rollouts(
            workspace=scene.workspace,
            policy=acting,
            environment=ENVIRONMENT,
            tasks={"split": split, "count": count, "levels": list(levels), "seed": seed},
            samples=samples,
            seed=seed,
            by=scene.researcher.user,
        )
    _try_again(scene, batch)
    return batch.state == JobState.DONE


def _try_again(scene: Scene, *batches: RolloutBatch | None) -> None:
    """Resume failed batches. Cancelled ones stay cancelled."""
    for batch in batches:
        if batch is not None and batch.state == JobState.FAILED and batch.attempt < MAX_TRIES:
            lifecycle.resume(batch, by=scene.researcher.user)


def queue(
    scene: Scene,
    *,
    name: str,
    policies: list[str],
    pairing: Pairing,
    overlap: int,
    kind: Queue.Kind = Queue.Kind.PAIRWISE,
    guidelines: str = GUIDELINES,
) -> Queue | None:
    """The queue with that name, once it's filled with trajectories of these policies at training tasks."""
    existing = Queue.objects.filter(workspace=scene.workspace, name=name).first()
    if existing is not None:
        return existing if existing.state == Queue.State.OPEN else None
    runs = Trajectory.objects.filter(
        workspace=scene.workspace, rollout_batch__policy__name__in=policies, task__held_out=False
    )
    # Refused if all trajectories ended alike: comparing them teaches nothing, so the thread ends here.
    with suppress(NothingToCompare):
        create_queue(
            workspace=scene.workspace,
            created_by=scene.researcher.user,
            name=name,
            selection=Selection(ids=list(runs.values_list("pk", flat=True))),
            pairing=pairing,
            overlap=overlap,
            guidelines=guidelines,
            kind=kind,
        )
    return None


def judge_by_rule(*, queue: Queue, rule: str, share: float) -> bool:
    """Let a rule judge; true when it has judged its share."""
    return rule_annotators.judge_by_rule(queue=queue, rule=rule, share=share, at_most=JUDGMENTS_AT_ONCE)


def version(
    scene: Scene, *, dataset: str, queue: str, number: int = 1, row_type: str = "preference", validation: int = 10
) -> Version | None:
    """The version of the dataset, once it's frozen. `validation` is the percentage of its tasks that aren't trained on."""
    existing = Version.objects.filter(workspace=scene.workspace, dataset__name=dataset, number=number).first()
    if existing is not None:
        return existing if existing.state == Version.State.FROZEN else None
    source = Queue.objects.get(workspace=scene.workspace, name=queue)
    series = Dataset.objects.filter(workspace=scene.workspace, name=dataset).first() or create_dataset(
        name=dataset, description="", license="", by=scene.researcher
    )
    # Refused if the rules call every pair a tie.
    with suppress(NothingToFreeze):
        request_version(
            dataset=series,
            recipe=Recipe(
                queues=(str(source.pk),), row_type=row_type, train=100 - validation, validation=validation, test=0
            ),
            by=scene.researcher,
        )
    return None


def run(
    scene: Scene,
    *,
    name: str,
    algorithm: Run.Algorithm,
    dataset: str | None,
    number: int = 1,
    preset: str,
    base: str | None = None,
    changes: Mapping[str, object] | None = None,
) -> bool:
    """Train; true when the run has finished, or ended in a way that the next step can do without.

    `number` is the dataset's version. Without a dataset, the run learns from its own rollouts.
    """
    existing = Run.objects.filter(workspace=scene.workspace, name=name).first()
    if existing is not None:
        if existing.state == Run.State.FAILED and existing.attempt < MAX_TRIES:
            lifecycle.resume(existing, by=scene.researcher.user)
        return existing.state == Run.State.FINISHED
    frozen = Version.objects.get(workspace=scene.workspace, dataset__name=dataset, number=number) if dataset else None
    start_from = scene.policy(base) if base else None
    # Refused if there are too few rows for a step; the thread ends here, and the version's page shows why.
    with suppress(LaunchRefused):
        plan = plan_run(
            member=scene.researcher,
            name=name,
            algorithm=algorithm,
            version=frozen,
            base=start_from,
            preset=preset,
            changes=changes,
        )
        launch_run(plan=plan, by=scene.researcher.user)
    return False


def experiment(
    scene: Scene, *, name: str, a: str, b: str, tasks: int, judged: float, levels: Sequence[str] = ()
) -> bool:
    """Compare two policies blind; true when a rule has judged its share of the pairs."""
    existing = Experiment.objects.filter(workspace=scene.workspace, name=name).first()
    if existing is None:
        policy_a, policy_b = scene.policy(a), scene.policy(b)
        if policy_a is None or policy_b is None:
            return False
        start_experiment(
            workspace=scene.workspace,
            name=name,
            environment=ENVIRONMENT,
            policy_a=policy_a,
            policy_b=policy_b,
            tasks=tasks,
            levels=list(levels),
            samples=1,
            overlap=1,
            rule=StoppingRule(min_tasks=15),
            seed=4,
            by=scene.researcher.user,
        )
        return False
    _try_again(scene, existing.rollouts_a, existing.rollouts_b)
    if existing.queue is None or existing.queue.state != Queue.State.OPEN:
        return existing.state != Experiment.State.ROLLING_OUT
    return judge_by_rule(queue=existing.queue, rule="Outcome first", share=judged)
