"""Chats written as one text, one paragraph per turn: `Human: …` and `Assistant: …`, or `USER: …` and `ASSISTANT: …`."""

from __future__ import annotations

import re

from apps.ingest.records import Message

SPEAKER = re.compile(r"(?:\A|\n\n)(Human|Assistant|USER|ASSISTANT|FUNCTION RESPONSE): ?")
ROLES = {"Human": "user", "USER": "user", "Assistant": "assistant", "ASSISTANT": "assistant"}
BEGINNING = ("\n\nHuman:", "USER: ")
ENDS = "<|endoftext|>"
"""An end-of-text token that some write after each answer; not part of the text."""


def transcript(text: str) -> list[Message]:
    """The messages of such a text; an empty list for anything else.

    An empty assistant turn at the end only marks where the answer goes, and is dropped.
    """
    if not text.startswith(BEGINNING):
        return []
    _, *parts = SPEAKER.split(text)
    messages = [
        {"role": ROLES.get(name, "tool"), "content": content.strip().removesuffix(ENDS).strip()}
        for name, content in zip(parts[::2], parts[1::2], strict=True)
    ]
    if messages[-1] == {"role": "assistant", "content": ""}:
        del messages[-1]
    return messages
