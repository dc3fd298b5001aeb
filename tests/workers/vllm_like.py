"""A real HTTP server with the part of vLLM's protocol that publishing uses, on real tiny models. It can misbehave."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from trainer.algorithms.canary_probes import token_logprobs


@cache
def weights(base: str, adapter: str) -> Any:
    model = AutoModelForCausalLM.from_pretrained(base)
    return PeftModel.from_pretrained(model, adapter).eval() if adapter else model.eval()


@cache
def likeliest(base: str, adapter: str, prompt: tuple[int, ...]) -> dict[str, float]:
    """The 20 most likely tokens after `prompt`, in vLLM's format."""
    with torch.inference_mode():
        logits = weights(base, adapter)(input_ids=torch.tensor([prompt])).logits[0, -1].float()
    top = logits.log_softmax(-1).topk(20)
    return {f"token_id:{token}": value for token, value in zip(top.indices.tolist(), top.values.tolist(), strict=True)}


class VllmLike:
    """Serves `base`, and adapters as they are loaded. If `ignores_adapters` is set, requests for adapters are answered by the base."""

    def __init__(self, base: Path, *, name: str = "base") -> None:
        self.base, self.base_name = str(base), name
        self.adapters: dict[str, str] = {}
        self.ignores_adapters = False
        self.mixes_up_caches = False
        """A prompt that another model was asked before gets that model's answer, unless the prompt is salted."""
        self.forgets = False
        """Loaded adapters aren't served, as after a crash between two requests."""
        self.before_answering: Callable[[str, dict[str, Any]], None] = lambda path, body: None
        """Called with each request after it was executed."""
        self.cached: dict[tuple[int, ...], str] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """Paths and bodies of the requests."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(200, {"data": outer.cards()})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append((self.path, body))
                reply = outer.reply(self.path, body)
                outer.before_answering(self.path, body)
                self.answer(*reply)

            def answer(self, status: int, body: Any) -> None:
                encoded = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(encoded)))
                with suppress(ConnectionError):  # if the client was killed
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

    def cards(self) -> list[dict[str, Any]]:
        adapters = [{"id": name, "root": path, "parent": self.base_name} for name, path in self.adapters.items()]
        return [{"id": self.base_name, "root": self.base, "parent": None}, *adapters]

    def reply(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        match path:
            case "/v1/load_lora_adapter":
                if not Path(body["lora_path"], "adapter_config.json").is_file():
                    return 404, error("NotFoundError", f"no adapter in {body['lora_path']}")
                if body["lora_name"] in self.adapters and not body.get("load_inplace"):
                    return 400, error("InvalidUserInput", f"{body['lora_name']} has already been loaded.")
                if not self.forgets:
                    self.adapters[body["lora_name"]] = body["lora_path"]
                return 200, "loaded"
            case "/v1/unload_lora_adapter":
                if self.adapters.pop(body["lora_name"], None) is None:
                    return 404, error("NotFoundError", f"{body['lora_name']} cannot be found.")
                return 200, "unloaded"
            case "/v1/completions":
                return self.complete(body)
        return 404, {"detail": "Not Found"}

    def complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        if body["model"] not in (self.base_name, *self.adapters):
            return 404, error("NotFoundError", f"The model `{body['model']}` does not exist.")
        adapter = "" if self.ignores_adapters else self.adapters.get(body["model"], "")
        if not body.get("echo"):
            prompt = tuple(body["prompt"])
            if self.mixes_up_caches and not body.get("cache_salt"):
                adapter = self.cached.setdefault(prompt, adapter)
            return 200, {"choices": [{"logprobs": {"top_logprobs": [likeliest(self.base, adapter, prompt)]}}]}
        [scores] = token_logprobs(weights(self.base, adapter), [body["prompt"]])
        return 200, {"choices": [{"logprobs": {"token_logprobs": [None, *scores, -0.5]}}]}


def error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "message": message}}
