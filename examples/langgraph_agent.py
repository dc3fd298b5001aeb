"""A LangGraph agent that refunds an order with two tools. Only the model's address and key are specific to Retrace.

pip install -r examples/requirements-langgraph.txt ./client
export RETRACE_URL=https://retrace.example.org RETRACE_TOKEN=rt_…
python examples/langgraph_agent.py POLICY
"""

import sys
from typing import Any

import retrace
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

TASK: dict[str, Any] = {
    "key": "refund-blue-lamp",
    "environment": "orders",
    "instruction": "Refund the order of the blue lamp. Look at the orders first, and refund no other.",
}
ORDERS = {"16": "red lamp", "17": "blue lamp", "18": "blue chair"}
MAX_STEPS = 20


def play(model: ChatOpenAI, instruction: str) -> list[str]:
    """Run the graph until the policy calls no more tools; returns the refunded orders."""
    refunded: list[str] = []

    @tool
    def find_order(number: str) -> str:
        """What was ordered under a number from 16 to 18."""
        return ORDERS[number]

    @tool
    def refund(order: str) -> str:
        """Pay an order back."""
        refunded.append(order)
        return f"Order {order} is refunded."

    tools = [find_order, refund]
    bound = model.bind_tools(tools)

    def act(state: MessagesState) -> dict[str, Any]:
        return {"messages": [bound.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("act", act)
    graph.add_node("tools", ToolNode(tools, handle_tool_errors=True))
    graph.add_edge(START, "act")
    graph.add_conditional_edges("act", tools_condition)
    graph.add_edge("tools", "act")
    graph.compile().invoke({"messages": [("user", instruction)]}, {"recursion_limit": MAX_STEPS})
    return refunded


if __name__ == "__main__":
    with retrace.Client() as client, client.session(policy=sys.argv[1], task=TASK, agent="langgraph") as session:
        model = ChatOpenAI(model="any", base_url=session.base_url, api_key=session.api_key, streaming=True)
        refunded = play(model, TASK["instruction"])
        session.finish(outcome="success" if refunded == ["17"] else "failure")
        print(f"Refunded: {', '.join(refunded) or 'nothing'}")
