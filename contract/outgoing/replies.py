"""What may be reported of an unexpected reply.

Whoever registers a server reads these messages. A body is quoted only if it's an error in the expected protocol; what
another service at that address says (a metadata service, another team's database) isn't theirs to read.
"""

import json
from typing import Any

import httpx

from contract import jsontext
from contract.quoting import legible

MAX_VALUES = 2_000_000
"""JSON values per reply, including token ids and log-probabilities. Parsing 64 MB of brackets would take minutes and gigabytes."""
LARGEST_ERROR = 256 * 1024
"""Bytes. A longer body isn't parsed as an error."""


def json_of(response: httpx.Response) -> Any:
    """Parses the body of a reply. Raises ValueError, RecursionError."""
    if jsontext.has_more_values(response.content, MAX_VALUES):
        raise ValueError(f"more than {MAX_VALUES:,} values")
    return json.loads(response.content)


def problem_of(response: httpx.Response) -> str:
    """Why a request failed, as a sentence without its period."""
    status = response.status_code
    if response.is_redirect:
        return f"it redirects ({status}), and redirects aren't followed"
    if status in (401, 403):
        problem = f"it refuses the key, or requires one ({status})"
    elif status == 404:
        problem = "it has no such path or model (404)"
    elif status == 429:
        problem = "it's overloaded (429)"
    elif response.is_client_error:
        problem = f"it refused the request ({status})"
    elif response.is_server_error:
        problem = f"it failed ({status})"
    else:
        problem = f"its status is {status}, which isn't a reply to this request"
    message = error_in(response.content)
    return f"{problem}: {message}" if message else problem


def error_in(body: bytes | str) -> str:
    """The message of an error in OpenAI's protocol, which vLLM and others also use; otherwise ""."""
    if len(body) > LARGEST_ERROR:
        return ""
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
