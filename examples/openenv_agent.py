"""Trains an agent in the environment of an OpenEnv server: plays the episodes of a training run, in its own process. Start as many as you like.

python -m trainer.environments.server office --port 9000  # or any other server, for tasks that name its seeds
export RETRACE_URL=https://retrace.example.org RETRACE_TOKEN=rt_…
python examples/openenv_agent.py http://127.0.0.1:9000 ENVIRONMENT
"""

import json
import sys
from typing import Any

import httpx
import retrace
from openai import OpenAI
from websockets.sync.client import ClientConnection, connect

PARALLEL = 32
JsonObject = dict[str, Any]


def function(tool: JsonObject) -> Any:
    described = {"name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"]}
    return {"type": "function", "function": described}


def ask(world: ClientConnection, kind: str, data: JsonObject) -> JsonObject:
    """The server's answer to a reset or a step. If it refuses an action, the policy is told and can correct it."""
    world.send(json.dumps({"type": kind, "data": data}))
    answer: JsonObject = json.loads(world.recv())
    if answer["type"] == "error" and kind == "reset":
        raise ValueError(f"the server can't set up this task: {answer['data']['message']}")
    if answer["type"] == "error":
        return {"observation": {"result": json.dumps({"error": answer["data"]["message"]})}}
    return answer["data"]  # type: ignore[no-any-return]


def act(world: ClientConnection, call: Any) -> JsonObject:
    try:
        arguments = json.loads(call.function.arguments)
    except ValueError as error:
        return {"observation": {"result": json.dumps({"error": f"the arguments are no JSON: {error}"})}}
    return ask(world, "step", {"type": "call_tool", "tool_name": call.function.name, "arguments": arguments})


class Agent:
    """Calls tools until it writes anything else, or the episode is over."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.library = OpenAI(base_url="http://of.each.episode", api_key="of each episode")
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        listed = httpx.post(f"{server}/mcp", json=request).raise_for_status().json()
        self.tools = [function(tool) for tool in listed["result"]["tools"]]

    def play(self, episode: retrace.Episode) -> JsonObject:
        policy = self.library.with_options(base_url=episode.base_url, api_key=episode.api_key)
        with connect(f"ws{self.server.removeprefix('http')}/ws") as world:
            seen = ask(world, "reset", {"task": episode.task, **episode.task["initial_state"]})
            opening = {"role": "user", "content": seen["observation"].get("message", "")}
            messages: list[Any] = seen["metadata"].get("messages") or [opening]
            reward, success = 0.0, False
            for _ in range(episode.max_calls):
                choice = policy.chat.completions.create(model="any", messages=messages, tools=self.tools).choices[0]
                messages.append(choice.message.model_dump(exclude_none=True))
                for call in choice.message.tool_calls or []:
                    seen = act(world, call)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": seen["observation"]["result"]})
                    reward += seen.get("reward", 0.0)
                    success = seen.get("metadata", {}).get("success", success)
                if not choice.message.tool_calls or seen.get("done"):
                    break
        return {"reward": reward, "success": success}


if __name__ == "__main__":
    retrace.run(Agent(sys.argv[1]).play, environment=sys.argv[2], parallel=PARALLEL)
