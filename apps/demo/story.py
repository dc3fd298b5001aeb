"""What happens in the demo workspace. Each step checks what exists and does what is due, so it can be called repeatedly: `seed_demo` starts
it, a periodic task continues it, and a killed worker only delays it.

The threads run side by side. In the first two, scripts of different quality are compared. In the last, a small model learns: from a
demonstrator's trajectories, then from judgments of its own. The third first tests, as anybody would, whether a model learns at all from a few of them.
"""

from collections.abc import Callable

from django.core.cache import cache

from apps.accounts.models import Workspace
from apps.annotation.kinds.pair_selection import Pairing
from apps.annotation.models import Queue
from apps.demo import recipe, scenes
from apps.demo.scenes import Scene
from apps.training.models import Run

Step = Callable[[Scene], bool]
"""Returns whether the step is done, so that the next one may begin."""

COMPARED = {
    "expert": "Does what is asked, by the book.",
    "hasty": "Takes the first thing it finds and leaves steps out.",
    "careless": "Knows the way, and slips now and then.",
}


def advance(workspace: Workspace) -> None:
    """Do every step that is due now. If two workers call it concurrently, the second does nothing."""
    if not cache.add("demo:going-on", 1, timeout=300):
        return
    try:
        scene = Scene.of(workspace)
        for thread in THREADS:
            for step in thread:
                if not step(scene):
                    break
    finally:
        cache.delete("demo:going-on")


def scripts_act(scene: Scene) -> bool:
    for name, description in COMPARED.items():
        scenes.scripted_policy(scene, name, description)
    done = [scenes.rollouts(scene, policy=name, split="train", count=60, seed=1) for name in COMPARED]
    return all(done)


def scripts_are_compared(scene: Scene) -> bool:
    """Two rules judge most pairs; each pair keeps a slot for a person."""
    pairing = Pairing(per_task=2, different_policies=True, seed=1)
    queue = scenes.queue(scene, name="Office trajectories", policies=list(COMPARED), pairing=pairing, overlap=3)
    if queue is None:
        return False
    done = [
        scenes.judge_by_rule(queue=queue, rule="Outcome first", share=0.8),
        scenes.judge_by_rule(queue=queue, rule="Clean and short", share=0.6),
    ]
    return all(done)


def scripts_make_a_version(scene: Scene) -> bool:
    return scenes.version(scene, dataset="Office preferences", queue="Office trajectories") is not None


def scripts_meet_blind(scene: Scene) -> bool:
    """Only a third is judged, so that the page has figures and people can continue."""
    return scenes.experiment(scene, name="Hasty or careless?", a="hasty", b="careless", tasks=30, judged=1 / 3)


def demonstrator_acts(scene: Scene) -> bool:
    scenes.scripted_policy(scene, recipe.DEMONSTRATOR, "Takes shortcuts now and then: what a first model learns from.")
    return scenes.rollouts(
        scene,
        policy=recipe.DEMONSTRATOR,
        split="train",
        count=recipe.DEMONSTRATION_TASKS,
        levels=recipe.LEVELS,
        seed=2,
    )


def first_demonstrations_are_judged(scene: Scene) -> bool:
    return _judge_demonstrations(scene, share=0.05)


def first_demonstrations_make_a_version(scene: Scene) -> bool:
    return _freeze_demonstrations(scene, number=1)


def model_is_tried(scene: Scene) -> bool:
    return scenes.run(
        scene,
        name="office-check",
        algorithm=Run.Algorithm.SFT,
        dataset="Office demonstrations",
        preset="quick",
    )


def demonstrations_are_judged(scene: Scene) -> bool:
    return _judge_demonstrations(scene, share=1.0)


def demonstrations_make_a_version(scene: Scene) -> bool:
    return _freeze_demonstrations(scene, number=2)


def _judge_demonstrations(scene: Scene, *, share: float) -> bool:
    queue = scenes.queue(
        scene,
        name="Demonstrations",
        policies=[recipe.DEMONSTRATOR],
        pairing=Pairing(per_task=1),
        overlap=1,
        kind=Queue.Kind.RATING,
        guidelines=scenes.DEMONSTRATION_GUIDELINES,
    )
    return queue is not None and scenes.judge_by_rule(queue=queue, rule="No failed call", share=share)


def _freeze_demonstrations(scene: Scene, *, number: int) -> bool:
    frozen = scenes.version(
        scene,
        dataset="Office demonstrations",
        queue="Demonstrations",
        number=number,
        row_type="demonstrations",
        validation=2,
    )
    return frozen is not None


def model_learns(scene: Scene) -> bool:
    return scenes.run(
        scene,
        name="office-sft",
        algorithm=Run.Algorithm.SFT,
        dataset="Office demonstrations",
        number=2,
        preset="standard",
        changes={"optimizer": recipe.SFT, "checkpoints": {"every": 200}},
    )


def model_acts(scene: Scene) -> bool:
    return scenes.rollouts(
        scene, policy="office-sft", split="train", count=150, samples=4, levels=recipe.LEVELS, seed=3
    )


def model_is_judged(scene: Scene) -> bool:
    pairing = Pairing(per_task=3, different_outcomes=True, seed=3)
    queue = scenes.queue(
        scene, name="The model's own trajectories", policies=["office-sft"], pairing=pairing, overlap=1
    )
    return queue is not None and scenes.judge_by_rule(queue=queue, rule="Outcome first", share=1.0)


def model_makes_a_version(scene: Scene) -> bool:
    return scenes.version(scene, dataset="On-policy preferences", queue="The model's own trajectories") is not None


def model_improves(scene: Scene) -> bool:
    return scenes.run(
        scene,
        name="office-dpo",
        algorithm=Run.Algorithm.DPO,
        dataset="On-policy preferences",
        base="office-sft",
        preset="standard",
        changes={"optimizer": recipe.DPO},
    )


def model_meets_its_base(scene: Scene) -> bool:
    return scenes.experiment(
        scene, name="Did DPO help?", a="office-dpo", b="office-sft", tasks=60, judged=0.5, levels=recipe.LEVELS
    )


def judgments_are_scored(scene: Scene) -> bool:
    return scenes.run(
        scene,
        name="office-reward",
        algorithm=Run.Algorithm.REWARD_MODEL,
        dataset="Office preferences",
        base="office-sft",
        preset="thorough",
    )


def model_trains_online(scene: Scene) -> bool:
    return scenes.run(
        scene,
        name="office-grpo",
        algorithm=Run.Algorithm.GRPO,
        dataset=None,
        base="office-sft",
        preset="standard",
        changes={**recipe.SHORT, "tasks": {"levels": list(recipe.LEVELS)}, "checkpoints": {"every": 10}},
    )


def grpo_meets_its_base(scene: Scene) -> bool:
    return scenes.experiment(
        scene, name="Did GRPO help?", a="office-grpo", b="office-sft", tasks=60, judged=0.5, levels=recipe.LEVELS
    )


BEGINNING: list[Step] = [
    demonstrator_acts,
    first_demonstrations_are_judged,
    first_demonstrations_make_a_version,
]
THREADS: list[list[Step]] = [
    [scripts_act, scripts_are_compared, scripts_make_a_version],
    [scripts_act, scripts_meet_blind],
    [*BEGINNING, model_is_tried],
    [
        *BEGINNING,
        demonstrations_are_judged,
        demonstrations_make_a_version,
        model_learns,
        model_acts,
        model_is_judged,
        model_makes_a_version,
        model_improves,
        model_meets_its_base,
        judgments_are_scored,
        model_trains_online,
        grpo_meets_its_base,
    ],
]
