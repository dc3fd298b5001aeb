"""Chats that are written down as one text, a paragraph for each turn: `Human: …` and `Assistant: …`, or `USER: …` and `ASSISTANT: …`."""

from __future__ import annotations

import re

from apps.ingest.records import Message

SPEAKER = re.compile(r"(?:\A|\n\n)(Human|Assistant|USER|ASSISTANT|FUNCTION RESPONSE): ?")
ROLES = {"Human": "user", "USER": "user", "Assistant": "assistant", "ASSISTANT": "assistant"}
BEGINNING = ("\n\nHuman:", "USER: ")
ENDS = "<|endoftext|>"
"""What some write after each answer: a sign for a tokenizer, no word of anybody."""


def transcript(text: str) -> list[Message]:
    """The messages of such a text; an empty list where it is something else.

    An empty assistant's turn at the end is the place where an answer is asked for, and no turn.
    """
    if not text.startswith(BEGINNING):
        return []
    _, *parts = SPEAKER.split(text)
    said = [
        {"role": ROLES.get(name, "tool"), "content": words.strip().removesuffix(ENDS).strip()}
        for name, words in zip(parts[::2], parts[1::2], strict=True)
    ]
    if said[-1] == {"role": "assistant", "content": ""}:
        del said[-1]
    return said
