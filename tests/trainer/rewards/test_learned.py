"""Learned rewards equal their models' outputs, whatever the batch."""

from pathlib import Path

import pytest
import torch

from contract.configs import ModelConfig
from contract.configs.rewards import LearnedOutcomeTerm, LearnedProcessTerm
from contract.trajectory import Step, Task, Trajectory
from tests.trainer.policies import ANSWER, ASK, FIRST, RESULT, TOOLS, save_policy
from trainer.models.loader import load_process_model, load_reward_model, load_tokenizer
from trainer.rendering.chat import render_completion
from trainer.rewards.learned import LearnedOutcome, LearnedProcess

TASK = Task(key="t", instruction="")
LONG = Trajectory(TASK, [Step([ASK], FIRST), Step([RESULT], ANSWER)], tools=TOOLS)
SHORT = Trajectory(TASK, [Step([ASK], ANSWER)], tools=TOOLS)
NOTHING = Trajectory(TASK, [])


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return save_policy(tmp_path / "base")


def test_an_outcome_reward_is_the_models_at_the_last_token(base: Path, tmp_path: Path):
    tokenizer = load_tokenizer(ModelConfig(path=str(base)), tmp_path)
    torch.manual_seed(1)
    model = load_reward_model(ModelConfig(path=str(base)), tmp_path, torch.float32, tokenizer.pad_token_id).eval()
    model.save_pretrained(tmp_path / "rm")
    tokenizer.save_pretrained(tmp_path / "rm")
    scores = LearnedOutcome(LearnedOutcomeTerm(path="./rm"), tmp_path).score([LONG, NOTHING, SHORT])
    assert scores[1].value is None
    for run, score in ((LONG, scores[0]), (SHORT, scores[2])):
        ids = render_completion(tokenizer, [], run.messages(), TOOLS).ids
        with torch.no_grad():
            logit = model(torch.tensor([ids])).logits.item()
        assert score.details["logit"] == pytest.approx(logit, abs=1e-5)
        assert score.value == pytest.approx(torch.tensor(logit / 2).tanh().item(), abs=1e-5)  # 2σ(x) - 1 = tanh(x/2)


def test_a_process_reward_has_one_score_a_turn(base: Path, tmp_path: Path):
    torch.manual_seed(1)
    load_process_model(ModelConfig(path=str(base)), tmp_path, torch.float32).save_pretrained(tmp_path / "prm")
    load_tokenizer(ModelConfig(path=str(base)), tmp_path).save_pretrained(tmp_path / "prm")
    mean, lowest = (
        LearnedProcess(LearnedProcessTerm(path="./prm", reduce=reduce), tmp_path).score([SHORT, LONG])
        for reduce in ("mean", "lowest")
    )
    turns = mean[1].turns
    assert turns is not None
    assert len(turns) == 2
    assert mean[1].value == pytest.approx(sum(turns) / 2)
    assert lowest[1].value == min(turns)
    assert len(mean[0].turns or []) == 1
