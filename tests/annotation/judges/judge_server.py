"""A server with the OpenAI chat API that imitates several models. When run as a program it prints its port.

lamp: prefers the run that looks for the lamp. left: always prefers the left one. rubbish: answers without a verdict. stray and stray rubbish:
include characters in their answers that no database can store. busy: refuses every
other request with 429. locked: refuses every key. metadata: isn't a model, and its response must not be disclosed; metadata-404 etc. respond with that
status.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

request_numbers = count(1)


def verdict(model: str, left_text: str) -> str:
    if model == "rubbish":
        return "I would rather not say."
    if model == "stray rubbish":
        return "I would \0rather\ud800 not say."
    better = "left" if model == "left" or '"for": "lamp"' in left_text else "right"
    reason = "It\0 found the \ud800lamp." if model == "stray" else "It found the lamp."
    return f"Let me think. {json.dumps({'reason': reason, 'better': better, 'how_much': 2})}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model, number = body["model"], next(request_numbers)
        if model.startswith("metadata"):
            status = {"404": 404, "500": 500, "redirect": 302}.get(model.partition("-")[2], 200)
            self.answer(status, {"AccessKeyId": "secret", "message": "AccessKeyId"}, {"Location": "/AccessKeyId"})
        elif model == "locked" or self.path != "/v1/chat/completions":
            self.answer(401, {"error": {"message": "wrong key"}})
        elif model == "busy" and number % 2:
            self.answer(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.01"})
        else:
            left_text = body["messages"][-1]["content"].partition("\n\nRIGHT\n")[0]
            message = {"role": "assistant", "content": verdict(model, left_text)}
            usage = {"prompt_tokens": 100, "completion_tokens": 10}
            self.answer(200, {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

    def answer(self, status: int, content: object, headers: dict[str, str] | None = None) -> None:
        encoded = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(encoded)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    sys.exit(server.serve_forever())
