"""Making what a finished run made known as a policy, with its descent."""

from apps.policies.models import Checkpoint, Policy
from apps.policies.names import free_name
from apps.training.folders import folder_of
from apps.training.models import Run

KIND_MADE_BY = {
    Run.Algorithm.SFT: Policy.Kind.MODEL,
    Run.Algorithm.DPO: Policy.Kind.MODEL,
    Run.Algorithm.KTO: Policy.Kind.MODEL,
    Run.Algorithm.GRPO: Policy.Kind.MODEL,
    Run.Algorithm.RLOO: Policy.Kind.MODEL,
    Run.Algorithm.STAR: Policy.Kind.MODEL,
    Run.Algorithm.REWARD_MODEL: Policy.Kind.REWARD_MODEL,
    Run.Algorithm.PROCESS_REWARD_MODEL: Policy.Kind.PROCESS_MODEL,
}


def register_result(run: Run) -> Policy:
    """The policy that `run` made; the same one when asked twice. Call it inside the transaction that ends the run."""
    if run.result is not None:
        return run.result
    policy = Policy.objects.create(
        workspace=run.workspace,
        name=free_name(workspace_id=run.workspace_id, wanted=run.name),
        kind=KIND_MADE_BY[Run.Algorithm(run.algorithm)],
        base=run.base,
        settings={"parameters": run.parameters} if run.parameters else {},
        report=run.report,
    )
    Checkpoint.objects.bulk_create(
        Checkpoint(
            policy=policy, step=int(place.name.rpartition("-")[2]), location=f"{run.pk}/checkpoints/{place.name}"
        )
        for place in folder_of(run.pk).kept_checkpoints()
    )
    run.result = policy
    run.save(update_fields=["result"])
    return policy
