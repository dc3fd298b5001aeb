"""The policies behind a run's learned reward terms, as run.json says where they are. Looked up again each time that a run is taken."""

from pathlib import Path
from uuid import UUID

from apps.policies.aliases import served
from apps.policies.models import Policy
from contract.configs.references import Online, with_terms
from contract.configs.rewards import JudgeTerm, LearnedOutcomeTerm, LearnedProcessTerm, RewardTerm
from trainer.failures import ConfigFailure
from workers.bridge.locations import model_path


def with_places(config: Online, folder: Path, *, workspace_id: UUID) -> Online:
    """`config` with the path or address of each policy that its reward names. Raises ConfigFailure."""
    return with_terms(
        config,
        [
            _placed(term, f"rewards.terms[{index}].policy", folder, workspace_id)
            for index, term in enumerate(config.rewards.terms)
        ],
    )


def _placed(term: RewardTerm, field: str, folder: Path, workspace_id: UUID) -> RewardTerm:
    match term:
        case LearnedOutcomeTerm(policy=policy_id) | LearnedProcessTerm(policy=policy_id) if policy_id:
            policy = _policy(policy_id, field, workspace_id)
            return term.replaced(path=model_path(policy, folder, workspace_id=workspace_id, field=field))
        case JudgeTerm(policy=policy_id) if policy_id:
            policy = _policy(policy_id, field, workspace_id)
            judge = served(policy)
            if judge is None:
                raise ConfigFailure(
                    f"{field}: {policy} is on no server any more, so it can’t judge.",
                    advice="Publish it to an endpoint and resume the run, or launch one with another judge.",
                )
            address = judge.endpoint
            return term.replaced(url=address.base_url, model=judge.name, api_key_variable=address.key_variable)
        case _:
            return term


def _policy(policy_id: str, field: str, workspace_id: UUID) -> Policy:
    policy = Policy.objects.filter(workspace=workspace_id, pk=policy_id).first()
    if policy is None:
        raise ConfigFailure(f"{field}: there is no policy {policy_id} in this workspace.", advice="Choose another one.")
    return policy
