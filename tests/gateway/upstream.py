"""A real HTTP server for chat completions that returns token ids, like vLLM, from a byte-level tokenizer. It can misbehave."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.gateway import spellings

END = 256
TURN = b"assistant:"
"""The generation prompt of this server's chat template."""
RENDER, DERENDER, GENERATE = "chat/completions/render", "chat/completions/derender", "/inference/v1/generate"
SCALED_OUT = (RENDER, DERENDER, GENERATE)
LOGPROB = -0.25
Reply = Callable[[dict[str, Any]], dict[str, Any]]


def ids_of(message: dict[str, Any]) -> list[int]:
    """A message as rendered by this server's chat template."""
    return [*f"{message['role']}:{written(message)}".encode(), END]


def written(message: dict[str, Any]) -> str:
    """The text that a policy generates for this message."""
    calls = message.get("tool_calls") or []
    if isinstance(calls, str):
        return calls
    content = message.get("content") or ""
    return (content if isinstance(content, str) else json.dumps(content)) + "".join(
        f"{call['function']['name']}({call['function']['arguments']})" for call in calls
    )


def says(text: str) -> Reply:
    return lambda body: {"role": "assistant", "content": text}


def calls(name: str, arguments: str) -> Reply:
    """A reply with a call; `arguments` is the text that the policy wrote."""
    call = {"id": "call_0", "type": "function", "function": {"name": name, "arguments": arguments}}
    return lambda body: {"role": "assistant", "content": None, "tool_calls": [call]}


class Upstream:
    """Answers each request with the next of `replies`; the last one is repeated."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies) or [says("Done.")]
        self.requests: list[dict[str, Any]] = []
        self.owner = "vllm"
        """The owner that `/v1/models` reports: servers of others return no token ids."""
        self.status = 200
        self.speaks = {"chat/completions", "messages", "responses"}
        self.scales_out = False
        """Whether it supports render, generate, and derender requests, like vLLM with `--enable-scale-out`."""
        self.steps: list[str] = []
        """The paths of those requests."""
        self.features: dict[str, Any] | None = None
        """What a rendered chat has besides tokens, such as images."""
        self.fails_at: dict[str, int] = {}
        """Status codes to respond with, by path."""
        self.generations: list[dict[str, Any]] = []
        self.generated: dict[str, dict[str, Any]] = {}
        self.error: bytes = b'{"error": {"message": "too hot", "type": "invalid_request_error", "code": 7}}'
        self.loses_ids = 0
        """Number of sampled ids that it leaves out."""
        self.seconds_a_piece = 0.0
        self.reads_stream_as_text = False
        """Whether it takes "stream": "false" for false, as vLLM does."""
        self.breaks_after: int | None = None
        """Number of chunks of a stream after which the connection breaks."""
        self.gone = threading.Event()
        """Set when a client disconnected before the end of a stream."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.answer(200, json.dumps({"data": [{"id": "served", "owned_by": outer.owner}]}).encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                path = self.path.removeprefix("/v1/")
                if path in SCALED_OUT:
                    outer.steps.append(path)
                    status = outer.fails_at.get(path, 200) if outer.scales_out else 403
                    answer = outer.scaled_out(path, body) if status == 200 else {"error": {"message": "disabled"}}
                    self.answer(status, json.dumps(answer).encode())
                    return
                outer.requests.append(body | {"authorization": self.headers.get("Authorization")})
                if path.removesuffix("/count_tokens") not in outer.speaks:
                    self.answer(404, b'{"detail": "Not Found"}')  # FastAPI's response
                    return
                if outer.status != 200:
                    self.answer(outer.status, outer.error)
                    return
                if path == "messages/count_tokens":
                    self.answer(200, b'{"input_tokens": 41, "server": "secret"}')
                    return
                reply = outer.replies.pop(0) if len(outer.replies) > 1 else outer.replies[0]
                message = reply(body)
                if path != "chat/completions":
                    self.spell(path, body, message)
                elif body.get("stream") and not (outer.reads_stream_as_text and body["stream"] == "false"):
                    self.stream(body, message)
                else:
                    self.answer(200, json.dumps(outer.completion(body, message)).encode())

            def spell(self, path: str, body: dict[str, Any], message: dict[str, Any]) -> None:
                completion = outer.completion(body | {"messages": spellings.chat_of(path, body)}, message)
                whole = spellings.message(completion) if path == "messages" else spellings.response(completion)
                if not body.get("stream"):
                    self.answer(200, json.dumps(whole).encode())
                    return
                self.begin_stream()
                events = spellings.message_events if path == "messages" else spellings.response_events
                for number, event in enumerate(events(whole)):
                    if number == outer.breaks_after:
                        return
                    self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
                    self.wfile.flush()

            def begin_stream(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True

            def stream(self, body: dict[str, Any], message: dict[str, Any]) -> None:
                self.begin_stream()
                try:
                    for number, chunk in enumerate(outer.chunks(body, message)):
                        if number == outer.breaks_after:
                            return
                        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
                        self.wfile.flush()
                        time.sleep(outer.seconds_a_piece)
                    self.wfile.write(b"data: [DONE]\n\n")
                except OSError:
                    outer.gone.set()

            def answer(self, status: int, answer: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def completion(self, body: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
        prompt, sampled = self._tokens(body, message)
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        reply: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
        if body.get("logprobs"):
            choice["logprobs"] = {"content": [{"token": "", "logprob": LOGPROB} for _ in sampled]}
        if body.get("return_token_ids"):
            reply["prompt_token_ids"] = prompt
            choice["token_ids"] = sampled[self.loses_ids :]
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(sampled), "total_tokens": 0}
        return reply | {"choices": [choice], "usage": usage}

    def scaled_out(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == RENDER:
            prompt, _ = self._tokens(body, {"role": "assistant"})
            if body.get("add_generation_prompt") is False:
                prompt = prompt[: -len(TURN)]
            room = 4096 - len(prompt)
            sampling = {"max_tokens": min(body.get("max_tokens") or room, room)}
            rendered = {"token_ids": prompt, "sampling_params": sampling, "model": body["model"], "stream": False}
            return rendered | {"request_id": f"chatcmpl-{len(self.steps)}", "features": self.features}
        if path == GENERATE:
            self.generations.append(body)
            message = self.replies.pop(0)(body) if len(self.replies) > 1 else self.replies[0](body)
            self.generated[body["request_id"]] = message
            sampled = [*written(message).encode(), END]
            logprobs = {"content": [{"token_id": token_id, "logprob": LOGPROB} for token_id in sampled]}
            choice = {"index": 0, "finish_reason": "stop", "token_ids": sampled, "logprobs": logprobs}
            usage = {"prompt_tokens": len(body["token_ids"]), "completion_tokens": len(sampled)}
            reply = {"request_id": body["request_id"], "choices": [choice], "usage": usage}
            return reply | {"prompt_token_ids": body["token_ids"]}
        generated, request = body["generate_response"], body["chat_request"]
        reply = self.completion(request, self.generated[generated["request_id"]])
        del reply["prompt_token_ids"]
        reply["choices"][0]["finish_reason"] = "stop"  # vLLM keeps the engine's finish reason
        return reply

    def chunks(self, body: dict[str, Any], message: dict[str, Any]) -> list[dict[str, Any]]:
        """Content letter by letter, a call in two chunks, each with its token ids."""
        whole = self.completion(body, message)
        shared = {"id": whole["id"], "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        deltas: list[dict[str, Any]] = [{"content": letter} for letter in message.get("content") or ""]
        for index, call in enumerate(message.get("tool_calls") or []):
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            deltas.append({"tool_calls": [{**call, "index": index, "function": {"name": name, "arguments": ""}}]})
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
        first = {**shared, "choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]}
        ids = whole["choices"][0].get("token_ids")
        if ids is not None:
            first["prompt_token_ids"] = whole["prompt_token_ids"]
        pieces = [first]
        for number, delta in enumerate(deltas):
            is_last = number == len(deltas) - 1
            choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
            if ids is not None:
                taken, ids = (ids, []) if is_last else (ids[:1], ids[1:])
                choice["token_ids"] = taken
                choice["logprobs"] = {"content": [{"token": "", "logprob": LOGPROB} for _ in taken]}
            if is_last:
                choice["finish_reason"] = whole["choices"][0]["finish_reason"]
            pieces.append({**shared, "choices": [choice]})
        if (body.get("stream_options") or {}).get("include_usage"):
            pieces.append({**shared, "choices": [], "usage": whole["usage"]})
        return pieces

    def _tokens(self, body: dict[str, Any], message: dict[str, Any]) -> tuple[list[int], list[int]]:
        prompt = [token for message in body["messages"] for token in ids_of(message)] + list(TURN)
        return prompt, [*written(message).encode(), END]

    def __enter__(self) -> Self:
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()
