"""Injected tool failures, always at the same calls of a task: transient errors and rate limits."""

from contract.values import JsonObject
from trainer.environments.tools import ToolError, Toolset


class Faults:
    """Configured by {"fail": [1-based numbers of calls], "limits": {tool: calls before the policy has to wait}}."""

    def __init__(self, faults: JsonObject) -> None:
        self._fail = set(faults.get("fail", ()))
        self._limits: dict[str, int] = faults.get("limits", {})
        self._calls = 0
        self._used: dict[str, int] = {}

    def pass_or_fail(self, tool: str) -> None:
        """Count a call. Raises ToolError if this one fails, before the world changes."""
        self._calls += 1
        if tool == "wait":
            self._used = {}
            return
        if self._used.get(tool, 0) >= self._limits.get(tool, 1_000_000):
            raise ToolError(f"429: too many calls of {tool}; wait first")
        if self._calls in self._fail:
            raise ToolError("503: the service is busy; try again")
        self._used[tool] = self._used.get(tool, 0) + 1


class UnreliableToolset(Toolset):
    """A toolset for instances that have `faults`."""

    def call(self, instance: object, function: JsonObject) -> object:
        if function.get("name") in self.functions:
            instance.faults.pass_or_fail(function["name"])  # type: ignore[attr-defined]  # made for Workplace alone
        return super().call(instance, function)
