"""What happens in the demo workspace, step by step. Each step looks at what is there and does what is due, so the story can be
told again and again: `seed_demo` begins it, the clock goes on with it, and a killed worker only pauses it."""

from collections.abc import Callable

from django.db import transaction

from apps.accounts.models import User, Workspace
from apps.annotation.models import Queue
from apps.annotation.pairing import Pairing
from apps.annotation.queueing import create_queue
from apps.annotation.selecting import Selection
from apps.arena.experimenting import start_experiment
from apps.arena.models import Experiment
from apps.arena.stopping import StoppingRule
from apps.demo.judging import judge_by_rule
from apps.demo.sign_ins import RESEARCHER
from apps.policies.models import Policy
from apps.trajectories.models import JobState, RolloutBatch, Trajectory
from apps.trajectories.rolling_out import start_rollouts

ENVIRONMENT = "office"
SCRIPTS = {
    "expert": "Does what is asked, by the book.",
    "hasty": "Takes the first thing it finds and leaves steps out.",
    "careless": "Knows the way, and slips now and then.",
}
TRAIN_TASKS = 60
GUIDELINES = """\
Two runs of the same office task, by two agents. Which one would you rather have had working for you?

- First: did it do **all** of what was asked, and nothing that was not asked?
- Then: did it take a sensible way? Needless steps and failed calls count against it.
- Use *tie* when you would not mind which one you got, and *both bad* when you would want neither.
"""


@transaction.atomic
def go_on(workspace: Workspace) -> None:
    """Do every step that is due now."""
    if Workspace.objects.select_for_update(skip_locked=True).filter(pk=workspace.pk).first() is None:
        return  # another worker is at it
    for step in STEPS:
        if not step(workspace):
            return


def researcher(workspace: Workspace) -> User:
    return User.objects.get(email=RESEARCHER.email)


def scripted_policies(workspace: Workspace) -> bool:
    """Scripts of different quality that attempt the same tasks."""
    for name, description in SCRIPTS.items():
        Policy.objects.get_or_create(
            workspace=workspace,
            name=name,
            defaults={"kind": Policy.Kind.SCRIPTED, "location": name, "description": description},
        )
    return True


def scripted_rollouts(workspace: Workspace) -> bool:
    """Each script's runs; done when all have arrived."""
    states = []
    for policy in Policy.objects.filter(workspace=workspace, name__in=SCRIPTS):
        batch = RolloutBatch.objects.filter(policy=policy, config__tasks__split="train").first()
        if batch is None:
            batch = start_rollouts(
                workspace=workspace,
                policy=policy,
                environment=ENVIRONMENT,
                tasks={"split": "train", "count": TRAIN_TASKS, "seed": 1},
                by=researcher(workspace),
            )
        states.append(batch.state)
    return all(state == JobState.DONE for state in states)


def first_queue(workspace: Workspace) -> bool:
    """Pairs of those runs; two rules judge most of them, and every pair has a place for a person."""
    queue = Queue.objects.filter(workspace=workspace, name="Office runs").first()
    if queue is None:
        runs = Trajectory.objects.filter(workspace=workspace, rollout_batch__policy__name__in=SCRIPTS)
        create_queue(
            workspace=workspace,
            created_by=researcher(workspace),
            name="Office runs",
            selection=Selection(ids=list(runs.values_list("pk", flat=True))),
            pairing=Pairing(per_task=2, different_policies=True, seed=1),
            overlap=3,
            guidelines=GUIDELINES,
        )
        return False
    if queue.state == Queue.State.OPEN:
        judge_by_rule(queue=queue, rule="Outcome first", share=0.8)
        judge_by_rule(queue=queue, rule="Clean and short", share=0.6)
    return queue.state != Queue.State.FILLING


def first_experiment(workspace: Workspace) -> bool:
    """Two scripts, blind. A rule judges a third of the pairs, so the figures show something and the rest is open."""
    experiment = Experiment.objects.filter(workspace=workspace, name="Hasty or careless?").first()
    if experiment is None:
        policies = {policy.name: policy for policy in Policy.objects.filter(workspace=workspace, name__in=SCRIPTS)}
        start_experiment(
            workspace=workspace,
            name="Hasty or careless?",
            environment=ENVIRONMENT,
            policy_a=policies["hasty"],
            policy_b=policies["careless"],
            tasks=30,
            levels=[],
            samples=1,
            overlap=1,
            rule=StoppingRule(min_tasks=15),
            seed=1,
            by=researcher(workspace),
        )
        return True
    if experiment.queue and experiment.queue.state == Queue.State.OPEN:
        judge_by_rule(queue=experiment.queue, rule="Outcome first", share=1 / 3)
    return True


STEPS: list[Callable[[Workspace], bool]] = [scripted_policies, scripted_rollouts, first_queue, first_experiment]
"""In order; a step that answers False is waited for."""
