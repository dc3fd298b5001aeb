"""A real HTTP server with the OpenAI protocol that can misbehave, and dies on request."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from contract.trajectory import Trajectory
from trainer.records import read_trajectories


class Server:
    """Responds with what `reply` returns: (status, body). Keeps the requests."""

    def __init__(self) -> None:
        self.is_down = False
        """Connections are closed without a response."""
        self.looks_until_up: int | None = None
        """Number of requests for its models after which a server that is down comes back; None: never."""
        self.models = ["m"]
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.reply: Callable[[dict[str, Any]], tuple[int, Any]] = lambda body: (200, looks_up_then_stops(body))
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if outer.looks_until_up is not None:
                    outer.looks_until_up -= 1
                    outer.is_down = outer.looks_until_up > 0
                self.answer(200, {"data": [{"id": model} for model in outer.models]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append({**body, "path": self.path})
                outer.keys.append(self.headers.get("Authorization"))
                self.answer(*outer.reply(body))

            def answer(self, status: int, answer: Any) -> None:
                if outer.is_down:
                    self.close_connection = True
                    return
                encoded = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(encoded)))
                self.end_headers()
                self.wfile.write(encoded)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()


def looks_up_then_stops(body: dict[str, Any]) -> dict[str, Any]:
    if len(body["messages"]) > 2:
        return completion({"role": "assistant", "content": "Done.", "reasoning_content": "Enough."})
    function = {"name": "find_contact", "arguments": '{"name": "Nobody"}'}
    call = {"id": "abc", "type": "function", "function": function}
    return completion({"role": "assistant", "content": None, "tool_calls": [call]})


def completion(message: dict[str, Any]) -> dict[str, Any]:
    choice = {
        "message": message,
        "finish_reason": "stop",
        "logprobs": {"content": [{"token": "a", "logprob": -0.25}, {"token": "b", "logprob": -1.0}]},
    }
    return {"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 2}}


def server_run(server: Server, **policy: Any) -> dict[str, Any]:
    sampling = {"temperature": 0.5, "max_new_tokens": 64}
    config = {"engine": "server", "url": server.url, "model": "m", "sampling": sampling, **policy}
    return {"kind": "rollout", "policy": config, "tasks": {"count": 3}, "parallel": 2}


def trajectories(folder: Path) -> list[Trajectory]:
    return list(read_trajectories(folder / "trajectories.jsonl"))
