"""Trains the agent of openai_agent.py, which runs here: plays the episodes of a training run. Start as many of these as you like.

export RETRACE_URL=https://retrace.example.org RETRACE_TOKEN=rt_…
python examples/openai_agent.py POLICY  # once, so that the task is known
retrace runs launch --algorithm grpo --base POLICY_ID --config examples/train_openai_agent.json
python examples/train_openai_agent.py
"""

import retrace
from openai import OpenAI
from openai_agent import play


def attempt(episode: retrace.Episode) -> bool:
    """Whether the policy in its current state refunds the right order."""
    client = OpenAI(base_url=episode.base_url, api_key=episode.api_key)
    return play(client, episode.task["instruction"]) == ["17"]


if __name__ == "__main__":
    retrace.run(attempt, environment="orders", parallel=8)
