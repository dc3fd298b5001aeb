"""The function under repair, and the tools that show, change, and run it. Every public method is a tool."""

from typing import Any

from contract.jsontext import MAX_DIGITS
from contract.values import JsonObject
from trainer.environments.code.sandbox import run_calls
from trainer.environments.code.tasks import same
from trainer.environments.tools import ToolError

MAX_CHARACTERS = 10_000
MAX_ANSWER = 400


class Workshop:
    """One function's source and its examples."""

    def __init__(self, state: JsonObject) -> None:
        self.function: str = state["function"]
        self.source: str = state["source"]
        self._examples: list[JsonObject] = state["examples"]

    def show_code(self) -> str:
        """Show the function with line numbers."""
        return "\n".join(f"{number}: {line}" for number, line in enumerate(self.source.split("\n"), start=1))

    def replace_line(self, line: int, text: str) -> str:
        """Replace a line of the function, and show the result.

        Args:
            line: The line's number, from 1.
            text: What the line should say, with its indentation.
        """
        lines = self.source.split("\n")
        if not 1 <= line <= len(lines):
            raise ToolError(f"line must be from 1 to {len(lines)}, got {line}")
        lines[line - 1] = text
        self._keep("\n".join(lines))
        return self.show_code()

    def write_code(self, source: str) -> str:
        """Replace the whole function, and show the result.

        Args:
            source: The new source, beginning with def.
        """
        self._keep(source)
        return self.show_code()

    def run_examples(self) -> list[dict[str, Any]]:
        """Call the function with each example's arguments, and compare."""
        ran = run_calls(self.source, self.function, [example["arguments"] for example in self._examples])
        return [
            {**example, **shortened(result), "passed": passes(result, example)}
            for example, result in zip(self._examples, ran.results, strict=True)
        ]

    def call_function(self, arguments: list[Any]) -> dict[str, Any]:
        """Call the function once, to see what it does.

        Args:
            arguments: The list of its arguments, such as [[1, 2], 3].
        """
        return shortened(run_calls(self.source, self.function, [arguments]).results[0])

    def _keep(self, source: str) -> None:
        if len(source) > MAX_CHARACTERS:
            raise ToolError(f"the source must have at most {MAX_CHARACTERS} characters, got {len(source)}")
        self.source = source


def passes(result: JsonObject, test: JsonObject) -> bool:
    """A stored task has a float where the answer is an integer beyond 64 bits (`contract.jsontext`)."""
    if "value" not in result:
        return False
    value, expected = result["value"], test["expected"]
    return same(value, expected) or (is_beyond_64_bits(value) and same(float(value), expected))


def is_beyond_64_bits(value: object) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**64 and abs(value) < 10**MAX_DIGITS


def shortened(result: JsonObject) -> dict[str, Any]:
    """The result as a policy sees it: {"got": …} or {"error": …}, and what was printed."""
    shown: dict[str, Any] = {"error": result["error"]} if "error" in result else {"got": result["value"]}
    if len(text := repr(shown.get("got"))) > MAX_ANSWER:
        shown["got"] = text[:MAX_ANSWER] + "…"
    return shown | ({"printed": result["printed"][:MAX_ANSWER]} if "printed" in result else {})
