"""Two agents of the OpenAI Agents SDK: one refunds an order, and asks the other which one. Only the client's address and key are specific to Retrace.

pip install -r examples/requirements-agents-sdk.txt ./client
export RETRACE_URL=https://retrace.example.org RETRACE_TOKEN=rt_…
python examples/agents_sdk_agent.py POLICY
"""

import sys
from typing import Any

import retrace
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

TASK: dict[str, Any] = {
    "key": "refund-blue-lamp",
    "environment": "orders",
    "instruction": "Refund the order of the blue lamp, and no other.",
}
ORDERS = {"16": "red lamp", "17": "blue lamp", "18": "blue chair"}
MOST_TURNS = 8


def play(library: AsyncOpenAI, instruction: str) -> list[str]:
    """Run the agents until the first one is done; returns the refunded orders."""
    refunded: list[str] = []

    @function_tool
    def find_order(number: str) -> str:
        """What was ordered under a number from 16 to 18."""
        return ORDERS[number]

    @function_tool
    def refund(order: str) -> str:
        """Pay an order back."""
        refunded.append(order)
        return f"Order {order} is refunded."

    model = OpenAIChatCompletionsModel(model="any", openai_client=library)
    clerk = Agent(
        name="clerk", instructions="Say the number of the order that is meant.", model=model, tools=[find_order]
    )
    ask = clerk.as_tool("ask_clerk", "Ask the clerk which order is meant.")
    manager = Agent(name="manager", instructions="Refund orders. Ask the clerk.", model=model, tools=[ask, refund])
    Runner.run_sync(manager, instruction, max_turns=MOST_TURNS)
    return refunded


if __name__ == "__main__":
    set_tracing_disabled(True)  # otherwise it sends its traces to OpenAI
    with retrace.Client() as client, client.session(policy=sys.argv[1], task=TASK, agent="agents-sdk") as session:
        library = AsyncOpenAI(base_url=session.base_url, api_key=session.api_key)
        refunded = play(library, TASK["instruction"])
        session.finish(outcome="success" if refunded == ["17"] else "failure")
        print(f"Refunded: {', '.join(refunded) or 'nothing'}")
