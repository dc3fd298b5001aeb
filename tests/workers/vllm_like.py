"""A real HTTP server that speaks the part of vLLM's protocol that publishing uses, on real tiny models. It can misbehave."""

import json
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from peft import PeftModel
from transformers import AutoModelForCausalLM

from trainer.algorithms.probing import token_logprobs


@cache
def weights(base: str, adapter: str) -> Any:
    model = AutoModelForCausalLM.from_pretrained(base)
    return PeftModel.from_pretrained(model, adapter).eval() if adapter else model.eval()


class VllmLike:
    """Serves `base`, and adapters as they are loaded. Where `ignores_adapters` is set their names answer with the base's numbers."""

    def __init__(self, base: Path, *, name: str = "base") -> None:
        self.base, self.base_name = str(base), name
        self.adapters: dict[str, str] = {}
        self.ignores_adapters = False
        self.forgets_on_swap = ""
        """Once this name is loaded it is not served: what a crash between two requests looks like."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(200, {"data": outer.cards()})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.answer(*outer.reply(self.path, body))

            def answer(self, status: int, body: Any) -> None:
                encoded = json.dumps(body).encode()
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

    def cards(self) -> list[dict[str, Any]]:
        adapters = [{"id": name, "root": path, "parent": self.base_name} for name, path in self.adapters.items()]
        return [{"id": self.base_name, "root": self.base, "parent": None}, *adapters]

    def reply(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        match path:
            case "/v1/load_lora_adapter":
                if not Path(body["lora_path"], "adapter_config.json").is_file():
                    return 404, {"error": {"type": "NotFoundError", "message": f"no adapter in {body['lora_path']}"}}
                self.adapters[body["lora_name"]] = body["lora_path"]
                if body["lora_name"] == self.forgets_on_swap:
                    del self.adapters[body["lora_name"]]
                return 200, "loaded"
            case "/v1/unload_lora_adapter":
                self.adapters.pop(body["lora_name"], None)
                return 200, "unloaded"
            case "/v1/completions":
                return self.complete(body)
        return 404, {"detail": "Not Found"}

    def complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        if body["model"] not in (self.base_name, *self.adapters):
            return 404, {"error": {"type": "NotFoundError", "message": f"The model `{body['model']}` does not exist."}}
        adapter = "" if self.ignores_adapters else self.adapters.get(body["model"], "")
        [scores] = token_logprobs(weights(self.base, adapter), [body["prompt"]])
        return 200, {"choices": [{"logprobs": {"token_logprobs": [None, *scores, -0.5]}}]}
