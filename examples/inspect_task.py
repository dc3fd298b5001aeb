"""An Inspect task: each sample is a session, and its score is the session's outcome. Only the model's address and key are specific to Retrace.

pip install -r examples/requirements-inspect.txt ./client
export RETRACE_URL=https://retrace.example.org RETRACE_TOKEN=rt_…
inspect eval examples/inspect_task.py --model none -T policy=POLICY
"""

from typing import Any

import retrace
from inspect_ai import Task, task
from inspect_ai.agent import react, run
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import Tool, tool

ORDERS = {"16": "red lamp", "17": "blue lamp", "18": "blue chair"}


@tool
def find_order() -> Tool:
    async def execute(number: str) -> str:
        """What was ordered.

        Args:
            number: Of the order, from 16 to 18.
        """
        return ORDERS[number]

    return execute


@solver
def recorded(policy: str) -> Solver:
    """Have a Retrace policy solve the sample in its own session."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        about: dict[str, Any] = {"key": str(state.sample_id), "environment": "inspect", "instruction": state.input_text}
        async with (
            retrace.AsyncClient() as client,
            client.session(policy=policy, task=about, agent="inspect") as session,
        ):
            model = get_model(
                "openai-api/retrace/any", base_url=session.base_url, api_key=session.api_key, memoize=False
            )
            ended = await run(react(tools=[find_order()], model=model), state.input)
            state.output = ended.output
            is_right = state.target.text in state.output.completion
            await session.finish(outcome="success" if is_right else "failure")
        return state

    return solve


@task
def orders(policy: str) -> Task:
    samples = [Sample(id="blue-lamp", input="Which order is the blue lamp? Say its number.", target="17")]
    return Task(dataset=samples, solver=recorded(policy), scorer=includes())
