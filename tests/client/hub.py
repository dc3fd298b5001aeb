"""A dataset hub with the API that huggingface_hub uses to create a repository, commit to it, and tag it."""

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

TOKEN = "hf_letmein"


@dataclass
class Repository:
    is_private: bool
    files: dict[str, bytes] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    """Commit messages. A commit's id is its index."""
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def head(self) -> str:
        return f"{len(self.commits):040x}"


class Hub:
    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.handle_call(b"")

            def do_POST(self) -> None:
                self.handle_call(self.rfile.read(int(self.headers["Content-Length"])))

            def handle_call(self, content: bytes) -> None:
                if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    self.answer(401, {"error": "Invalid username or password."})
                else:
                    self.answer(*outer.respond(self.command, self.path.partition("?")[0], content))

            def answer(self, status: int, answer: Any) -> None:
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def respond(self, method: str, path: str, content: bytes) -> tuple[int, Any]:
        if path == "/api/repos/create":
            return self._create(json.loads(content))
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        match = re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/(\w+)/([^/]+))?", path)
        repository = self.repositories.get(match[1]) if match else None
        if match is None or repository is None:
            return 404, {"error": "Repository not found"}
        match method, match[2]:
            case "GET", "tree":
                return 200, [
                    {"type": "file", "path": name, "size": len(data), "oid": _oid(data)}
                    for name, data in repository.files.items()
                ]
            case "GET", _:
                return 200, {"id": match[1], "sha": repository.head, "siblings": []}
            case "POST", "preupload":
                return 200, {"files": [_mode(repository, file["path"]) for file in json.loads(content)["files"]]}
            case "POST", "commit":
                return self._commit(match[1], repository, content)
            case "POST", "tag":
                return self._tag(repository, json.loads(content)["tag"], match[3])
        return 404, {"error": "Not found"}

    def _create(self, repository_fields: dict[str, Any]) -> tuple[int, Any]:
        name = f"{repository_fields['organization']}/{repository_fields['name']}"
        if name in self.repositories:
            return 409, {"error": "You already created this dataset repo", "url": f"{self.url}/datasets/{name}"}
        self.repositories[name] = Repository(
            bool(repository_fields.get("private") or repository_fields.get("visibility") == "private")
        )
        return 200, {"url": f"{self.url}/datasets/{name}"}

    def _commit(self, name: str, repository: Repository, content: bytes) -> tuple[int, Any]:
        for line in map(json.loads, content.splitlines()):
            value = line["value"]
            match line["key"]:
                case "header":
                    repository.commits.append(value["summary"])
                case "file":
                    repository.files[value["path"]] = base64.b64decode(value["content"])
                case "deletedFile":
                    del repository.files[value["path"]]
        url = f"{self.url}/datasets/{name}/commit/{repository.head}"
        return 200, {"success": True, "commitOid": repository.head, "commitUrl": url}

    def _tag(self, repository: Repository, tag: str, revision: str) -> tuple[int, Any]:
        if tag in repository.tags:
            return 409, {"error": "Tag reference exists already"}
        repository.tags[tag] = revision
        return 200, {}

    def __enter__(self) -> Self:
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()


def _mode(repository: Repository, path: str) -> dict[str, Any]:
    data = repository.files.get(path)
    return {
        "path": path,
        "uploadMode": "regular",
        "shouldIgnore": False,
        "oid": None if data is None else _oid(data),
    }


def _oid(data: bytes) -> str:
    """The git blob id of a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
