"""Serves a built-in environment over HTTP: `python -m trainer.environments.server office --port 9000`.

Speaks the OpenEnv protocol: episodes in WebSocket sessions at /ws, schemas at /schema, tools at /mcp. It can be played from another machine
by `served` or any OpenEnv client. A session holds one episode; a reset's `seed` selects the task, or `task` gives one, as in a trajectory.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any

import uvicorn

from contract.messages import Message
from contract.trajectory import Task
from contract.values import JsonObject
from trainer.environments import environment_named
from trainer.environments.protocol import Environment, Split
from trainer.environments.served import HELD_OUT_ONE_IN
from trainer.failures import RunFailure

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Server:
    """An ASGI application that serves one environment."""

    def __init__(self, environment: type[Environment], levels: tuple[str, ...] = ()) -> None:
        self.environment = environment
        self._levels = levels or environment.usual_levels
        sample = environment()
        sample.reset(self.task(1))
        self._tools = sample.tools

    def task(self, seed: int) -> Task:
        """The task that a seed stands for. Seeds that end in 0 are held out."""
        split: Split = "train" if seed % HELD_OUT_ONE_IN else "held_out"
        level = self._levels[seed // HELD_OUT_ONE_IN % len(self._levels)]
        return next(islice(self.environment.tasks(levels=(level,), split=split, seed=seed), 1))

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"] == "/ws":
            await receive()
            await send({"type": "websocket.accept"})
            await self._play(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _play(self, receive: Receive, send: Send) -> None:
        session = Session(self)
        while (event := await receive())["type"] == "websocket.receive":
            answer = await asyncio.to_thread(session.answer, str(event.get("text") or ""))
            if answer is None:
                await send({"type": "websocket.close"})
                break
            await send({"type": "websocket.send", "text": json.dumps(answer)})
        session.close()

    async def _answer(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        status, answer = self._http(f"{scope['method']} {scope['path']}", body)
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]}
        )
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    def _http(self, request: str, body: bytes) -> tuple[int, JsonObject]:
        match request:
            case "GET /health":
                return 200, {"status": "healthy"}
            case "GET /schema":
                return 200, {
                    "action": self.action_schema,
                    "observation": {"type": "object"},
                    "state": {"type": "object"},
                }
            case "POST /mcp" if b"tools/list" in body:
                functions = [tool["function"] for tool in self._tools]
                keys = {"name": "name", "description": "description", "parameters": "inputSchema"}
                listed = [{keys[key]: value for key, value in function.items()} for function in functions]
                return 200, {"jsonrpc": "2.0", "id": 1, "result": {"tools": listed}}
        return 404, {"detail": f"{request} is not served; episodes are played at /ws"}

    @property
    def action_schema(self) -> JsonObject:
        """A tool call, or a message for environments without tools."""
        text = {"type": "string"}
        if not self._tools:
            return {"type": "object", "properties": {"message": text}, "required": ["message"]}
        properties = {"type": {"const": "call_tool"}, "tool_name": text, "arguments": {"type": "object"}}
        return {"type": "object", "properties": properties, "required": ["tool_name", "arguments"]}


class Session:
    """Consecutive episodes with one client."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._environment: Environment | None = None

    def answer(self, text: str) -> JsonObject | None:
        """The answer to a message; None if it ends the session."""
        try:
            request = json.loads(text)
            kind, data = request["type"], request.get("data") or {}
            match kind:
                case "reset":
                    task = (
                        Task.from_json(data["task"])
                        if "task" in data
                        else self._server.task(int(data.get("seed") or 0))
                    )
                    return self._reset(task)
                case "step":
                    return self._step(data)
                case "state":
                    return {"type": "state", "data": {}}
                case "close":
                    return None
        except RunFailure as failure:
            return refusal("EXECUTION_ERROR", failure.message)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            return refusal("VALIDATION_ERROR", f"{type(error).__name__}: {error}")
        return refusal("UNKNOWN_TYPE", f"unknown message type {kind!r}")

    def close(self) -> None:
        if self._environment is not None:
            self._environment.close()

    def _reset(self, task: Task) -> JsonObject:
        """The observation is text; agents that keep a chat get the messages from the metadata."""
        self.close()
        self._environment = self._server.environment()
        opening = self._environment.reset(task)
        reset = self._observation({"message": "\n\n".join(str(message["content"]) for message in opening)})
        reset["data"]["metadata"]["messages"] = opening
        return reset

    def _step(self, action: JsonObject) -> JsonObject:
        if self._environment is None:
            return refusal("SESSION_ERROR", "reset comes first")
        if not self._environment.tools:
            message: Message = {"role": "assistant", "content": str(action["message"])}
            transition = self._environment.step(message)
            return self._observation({"message": ""}, reward=transition.reward, done=transition.done)
        function = {"name": action["tool_name"], "arguments": action["arguments"]}
        call = {"id": "call", "type": "function", "function": function}
        transition = self._environment.step({"role": "assistant", "content": "", "tool_calls": [call]})
        result = {"tool_name": action["tool_name"], "result": transition.observation[0]["content"], "error": None}
        return self._observation(
            result, reward=transition.reward, done=transition.done, error=transition.info.get("error")
        )

    def _observation(
        self, observation: JsonObject, *, reward: float = 0.0, done: bool = False, error: Any = None
    ) -> JsonObject:
        assert self._environment is not None
        score = self._environment.score()
        metadata = {"success": score.success, "subgoals": score.subgoals, **({"error": error} if error else {})}
        return {
            "type": "observation",
            "data": {"observation": observation, "reward": reward, "done": done, "metadata": metadata},
        }


def refusal(code: str, message: str) -> JsonObject:
    return {"type": "error", "data": {"code": code, "message": message}}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m trainer.environments.server", description=__doc__)
    parser.add_argument("environment", help="a built-in environment")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--levels", nargs="*", default=[], help="levels to draw from; the environment's usual ones")
    options = parser.parse_args(arguments)
    server = Server(environment_named(options.environment), tuple(options.levels))
    uvicorn.run(server, host=options.host, port=options.port, log_level="warning")


if __name__ == "__main__":
    main(sys.argv[1:])
