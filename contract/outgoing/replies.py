"""What may be told of a reply that isn't the one that was asked for.

Whoever registers a server reads these sentences. A body is quoted only where it's an error of the protocol that was spoken; what
something else said at that address (a metadata service, another team's database) isn't theirs to read.
"""

import json
from typing import Any

import httpx

from contract.quoting import legible


def problem_of(response: httpx.Response) -> str:
    """Why a server didn't do what it was asked to, in a sentence without its period."""
    status = response.status_code
    if response.is_redirect:
        return f"it redirects ({status}), and redirects aren't followed"
    if status in (401, 403):
        problem = f"it refuses the key, or wants one ({status})"
    elif status == 404:
        problem = "it knows no such path or model (404)"
    elif status == 429:
        problem = "it has too much to do (429)"
    elif response.is_client_error:
        problem = f"it refuses the request ({status})"
    elif response.is_server_error:
        problem = f"it failed ({status})"
    else:
        problem = f"its status is {status}, which isn't a reply to this request"
    words = error_in(response.content)
    return f"{problem}: {words}" if words else problem


def error_in(body: bytes | str) -> str:
    """The message of an error in the protocol of OpenAI, as vLLM and others also send it; else ""."""
    try:
        reply: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(reply, dict):
        return ""
    nested = reply.get("error")
    error = nested if isinstance(nested, dict) else reply if reply.get("object") == "error" else {}
    message = error.get("message") if "type" in error else None
    return legible(message) if isinstance(message, str) else ""
