"""Trajectories to import."""

from __future__ import annotations

from typing import Any


def assistant(words: str) -> dict[str, str]:
    return {"role": "assistant", "content": words}


def pairs(tasks: int) -> list[dict[str, Any]]:
    """Two attempts at each task, one of them clearly better."""
    return [
        {
            "format": "retrace/1",
            "id": f"{way}-{number}",
            "task": {"key": f"order-{number}", "instruction": f"Find order {number}.", "environment": "office"},
            "policy": f"{way}-agent",
            "steps": [{"context": [{"role": "user", "content": f"Find order {number}."}], "message": assistant(words)}],
        }
        for number in range(tasks)
        for way, words in (("good", f"Order {number} is on shelf {number}."), ("bad", "I don't know."))
    ]
