"""Any environment that a server offers as reset and step (the OpenEnv protocol), played like a built-in one."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import count
from typing import Any, ClassVar

from contract.messages import Message, ToolSchema
from contract.trajectory import Task
from contract.values import JsonObject
from trainer.environments.protocol import Score, Split, Transition
from trainer.environments.scripts import ScriptFactory
from trainer.environments.served.actions import Actions, actions_at, as_text
from trainer.environments.served.session import Observed, ServerError, Session, open_session
from trainer.environments.tools import ToolError
from trainer.failures import ConfigFailure, DataFailure

HELD_OUT_ONE_IN = 10
"""Seeds that end in 0 are held out."""
AFTER_THE_END = json.dumps({"error": "the episode ended with the call before"})
"""The result of a call after the one that ended the episode, in the same message. It isn't sent: servers may reward it again."""


class Served:
    """One episode on a server. The outcome's reward is the sum of the steps' rewards.

    Success and subgoals come from `success` and `subgoals` in the observations' metadata; if a server doesn't report success, it's a
    reward sum above 0.
    """

    name: ClassVar[str]
    address: ClassVar[str]
    levels: ClassVar[tuple[str, ...]] = ("all",)
    usual_levels: ClassVar[tuple[str, ...]] = levels
    scripts: ClassVar[Mapping[str, ScriptFactory]] = {}
    waits: ClassVar[bool] = True

    def __init__(self) -> None:
        self._session: Session | None = None
        self._actions = actions_of(self.address)

    @property
    def tools(self) -> list[ToolSchema]:
        return self._actions.tools

    @classmethod
    def tasks(cls, *, levels: tuple[str, ...], split: Split, seed: int) -> Iterator[Task]:
        """Fetches each task's opening from the server, so that people can read the task."""
        environment = cls()
        for number in count():
            episode = seed_of(split, number) + 1_000_000 * seed
            blank = Task(key="", instruction="", initial_state={"seed": episode})
            try:
                (opening,) = environment.reset(blank)
            except ServerError as error:
                raise ConfigFailure(f"environment: {cls.address}: {error}", advice="Is the server running?") from None
            finally:
                environment.close()
            yield Task(
                key=f"{cls.name}/{split}/{number}" + (f"@{seed}" if seed else ""),
                instruction=str(opening["content"]),
                environment=cls.name,
                initial_state={"seed": episode},
                difficulty="all",
                held_out=split == "held_out",
            )

    def reset(self, task: Task) -> list[Message]:
        if not isinstance(task.initial_state.get("seed"), int):
            raise DataFailure(f"Task {task.key!r} names no episode.", advice="Its initial_state needs seed, a number.")
        self.close()
        self._session = open_session(self.address)
        self._total = 0.0
        self._success: bool | None = None
        self._subgoals: dict[str, bool] = {}
        return [
            {
                "role": "user",
                "content": as_text(self._note(self._session.reset(task.initial_state["seed"])).observation),
            }
        ]

    def step(self, action: Message) -> Transition:
        previous_total = self._total
        answers: list[Message] = []
        info: dict[str, Any] = {}
        done = False
        for tool_call in action.get("tool_calls") or []:
            content, done = (AFTER_THE_END, True) if done else self._answer(tool_call, info)
            answers.append({"role": "tool", "tool_call_id": tool_call.get("id", ""), "content": content})
        if not action.get("tool_calls"):
            call = self._actions.of_words(action)
            if call is None:
                done = True
            else:
                content, done = self._do(call, info)
                answers.append({"role": "user", "content": content})
        return Transition(
            answers, round(self._total - previous_total, 4), done, {**info, "subgoals": dict(self._subgoals)}
        )

    def score(self) -> Score:
        is_silent = self._success is None
        success = self._total > 0 if self._success is None else self._success
        return Score(round(self._total, 4), success, dict(self._subgoals), is_success_from_reward=is_silent)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _answer(self, tool_call: JsonObject, info: dict[str, Any]) -> tuple[str, bool]:
        try:
            return self._do(self._actions.of_call(tool_call), info)
        except ToolError as error:
            info.setdefault("error", str(error))
            return json.dumps({"error": str(error)}), False

    def _do(self, action: JsonObject, info: dict[str, Any]) -> tuple[str, bool]:
        """The policy's next observation, and whether the episode is over. Raises ServerError."""
        assert self._session is not None, "reset comes first"
        try:
            observed = self._note(self._session.step(action))
        except ToolError as error:
            info.setdefault("error", str(error))
            return json.dumps({"error": str(error)}), False
        content = as_text(observed.observation)
        if failed := observed.observation.get("error") or observed.metadata.get("error"):
            info.setdefault("error", failed if isinstance(failed, str) else json.dumps(failed))
        return content, observed.done

    def _note(self, observed: Observed) -> Observed:
        self._total += observed.reward
        if isinstance(success := observed.metadata.get("success"), bool):
            self._success = success
        if isinstance(subgoals := observed.metadata.get("subgoals"), dict):
            self._subgoals = {str(name): bool(reached) for name, reached in subgoals.items()}
        return observed


def served_at(address: str, name: str) -> type[Served]:
    """The environment that the server at http(s)://… offers."""
    return type("ServedThere", (Served,), {"name": name, "address": address.rstrip("/")})


@lru_cache(maxsize=64)
def actions_of(address: str) -> Actions:
    """Cached per run, since a server's actions don't change."""
    return actions_at(address)


def seed_of(split: Split, number: int) -> int:
    """0, 10, 20, … are held out; 1 to 9, 11 to 19, … are for training."""
    if split == "held_out":
        return number * HELD_OUT_ONE_IN
    return number // (HELD_OUT_ONE_IN - 1) * HELD_OUT_ONE_IN + 1 + number % (HELD_OUT_ONE_IN - 1)
