"""An agent's turns through the gateway to a real vLLM: each prompt continues the sampled tokens."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from transformers import AutoTokenizer

from apps.accounts.models import Membership
from apps.gateway import sessions
from apps.gateway.models import Call, Join, Session
from apps.gateway.queries import counts_of
from apps.gateway.session_trajectories import ids_from
from apps.policies import registration
from contract.messages import Message
from tests.gateway.conftest import gateway_url, researcher  # noqa: F401  # fixtures
from tests.vllm.conftest import needs_vllm
from trainer.environments.office import Office
from trainer.serving.client import VllmServer

pytestmark = needs_vllm
SESSIONS, TURNS = 20, 4
TEMPERATURE = 2.0
"""High enough to sample replies whose text tokenizes differently."""
TURN = "<|im_start|>"


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_no_turn_has_a_seam_but_those_that_a_limit_cut(
    gateway_url: str,  # noqa: F811
    researcher: Membership,  # noqa: F811
    server: VllmServer,
    trained: Path,
    streams: bool,
) -> None:
    policy = registration.register_served(
        workspace=researcher.workspace, name="clerk", base_url=server.url, model="base", by=researcher.user
    )
    tokenizer: Any = AutoTokenizer.from_pretrained(trained / "base" / "model")
    turn = tokenizer.convert_tokens_to_ids(TURN)
    counts: Counter[str] = Counter()
    for task in islice(Office.tasks(levels=("L1", "L2"), split="train", seed=1), SESSIONS):
        opened = sessions.open_session(workspace=researcher.workspace, policy=policy, by=researcher.user)
        office = Office()
        play(office, office.reset(task), f"{gateway_url}/chat/completions", opened.key, streams=streams)
        counts.update(counts_of(opened.session)._asdict())
        for prompt, turns in prompts_of(opened.session, turn):
            assert prompt.count(turn) == turns, "a turn is there twice, or missing"
    assert (counts["failed"], counts["untrainable"]) == (0, 0)
    assert counts["bridged"] > 0
    cut = [call for call in Call.objects.filter(join=Join.MESSAGES) if not has_ended(call.parent)]
    assert counts["seams"] == len(cut)


def play(office: Office, messages: list[Message], url: str, key: str, *, streams: bool) -> None:
    """An agent of TURNS turns that sends replies back without optional parts that its policy wrote."""
    for turn in range(TURNS):
        body = {"model": "clerk", "messages": messages, "tools": office.tools, "temperature": TEMPERATURE, "seed": turn}
        body |= {"max_tokens": 96, "stream": streams}
        response = httpx.post(url, json=body, headers={"Authorization": f"Bearer {key}"}, timeout=120)
        assert response.status_code == 200, response.text
        reply = Call.objects.latest("id").reply["choices"][0]["message"]
        message: dict[str, Any] = {"role": "assistant", "content": reply.get("content") or ""}
        if reply.get("tool_calls"):
            message["tool_calls"] = reply["tool_calls"]
            answers = office.step(message).observation
        else:
            answers = [{"role": "user", "content": "Please go on."}]
        messages = [*messages, message, *answers]


def prompts_of(session: Session, turn: int) -> Iterator[tuple[list[int], int]]:
    """The whole prompt of each call, and how often `turn`, which begins a message, must occur in it."""
    so_far: list[int] = []
    turns = 1
    for call in Call.objects.filter(session=session).order_by("id"):
        prompt = (so_far if call.join == Join.TOKENS else []) + ids_from(call.prompt_ids).tolist()
        turns += len(call.messages)
        yield prompt, turns
        sampled = ids_from(call.sampled_ids).tolist()
        so_far, turns = prompt + sampled, turns + 1 + sampled.count(turn)


def has_ended(call: Call | None) -> bool:
    return call is not None and (call.reply or {})["choices"][0]["finish_reason"] != "length"
