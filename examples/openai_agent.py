"""An agent on the openai package that refunds an order with two tools. Retrace records every call and the outcome.

pip install openai ./client
export RETRACE_URL=https://retrace.example.org RETRACE_TOKEN=rt_…
python examples/openai_agent.py POLICY
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import retrace
from openai import OpenAI

TASK: dict[str, Any] = {
    "key": "refund-blue-lamp",
    "environment": "orders",
    "instruction": "Refund the order of the blue lamp. Look at the orders first, and refund no other.",
}
ORDERS = {"16": "red lamp", "17": "blue lamp", "18": "blue chair"}
MOST_TURNS = 8


def function(name: str, description: str, **parameters: Any) -> Any:
    schema = {"type": "object", "properties": parameters, "required": list(parameters)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def play(client: OpenAI, instruction: str) -> list[str]:
    """Run the policy until it's done; returns the refunded orders."""
    refunded: list[str] = []

    def refund(order: str) -> str:
        refunded.append(order)
        return f"Order {order} is refunded."

    tools: dict[str, Callable[..., Any]] = {"list_orders": lambda: ORDERS, "refund": refund}
    offered = [
        function("list_orders", "The number of each order, and what was ordered."),
        function("refund", "Pay an order back.", order={"type": "string"}),
    ]
    messages: list[Any] = [{"role": "user", "content": instruction}]
    for _ in range(MOST_TURNS):
        message = client.chat.completions.create(model="any", messages=messages, tools=offered).choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        calls = [call for call in message.tool_calls or [] if call.type == "function"]
        for call in calls:
            try:
                result = tools[call.function.name](**json.loads(call.function.arguments))
            except (KeyError, TypeError, ValueError) as error:  # policies make mistakes, and can correct them
                result = f"Error: {error}"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
        if not calls:
            break
    return refunded


if __name__ == "__main__":
    with retrace.Client() as client, client.session(policy=sys.argv[1], task=TASK, agent="openai_agent") as session:
        refunded = play(OpenAI(base_url=session.base_url, api_key=session.api_key), TASK["instruction"])
        is_right = refunded == ["17"]
        session.reward(1.0 if is_right else 0.0, name="right_order")
        session.finish(outcome="success" if is_right else "failure")
        print(f"Refunded: {', '.join(refunded) or 'nothing'}. Session {session.id}")
