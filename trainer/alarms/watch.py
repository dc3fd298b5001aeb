"""Watches a run's metrics and raises alarms."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trainer.alarms.curves import Curves
from trainer.alarms.rules import RULES, AlarmName


class Alarm(NamedTuple):
    """A known failure mode was detected."""

    name: AlarmName
    step: int
    message: str
    advice: str


class Watch:
    """Watches a run. Each alarm is raised once, including across resumes: a resumed run recalls its past first."""

    def __init__(self, learned: Sequence[str] = ()) -> None:
        self.curves = Curves(learned=learned)
        self.raised: set[AlarmName] = set()

    def check(self, step: int, values: Mapping[str, float | None]) -> list[Alarm]:
        """The alarms that these measurements raise."""
        self.curves.add(values)
        alarms = []
        for name, rule in RULES.items():
            if name not in self.raised and (finding := rule(self.curves)):
                self.raised.add(name)
                alarms.append(Alarm(name, step, *finding))
        return alarms

    def recall(self, past: Iterable[Mapping[str, float | None]]) -> None:
        """Replay the measurements from before a resume."""
        for values in past:
            self.check(0, values)
