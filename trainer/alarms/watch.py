"""Looks at a run's curves as it goes, and says which alarms rise."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trainer.alarms.curves import Curves
from trainer.alarms.rules import RULES, AlarmName


class Alarm(NamedTuple):
    """Something known to end badly has begun."""

    name: AlarmName
    step: int
    message: str
    advice: str


class Watch:
    """Looks at a run as it goes. An alarm rises once; a resumed run is told its past first, and what rose then stays told."""

    def __init__(self, learned: Sequence[str] = ()) -> None:
        self.curves = Curves(learned=learned)
        self.raised: set[AlarmName] = set()

    def look(self, step: int, values: Mapping[str, float | None]) -> list[Alarm]:
        """The alarms that rise with these measurements."""
        self.curves.add(values)
        found = []
        for name, rule in RULES.items():
            if name not in self.raised and (finding := rule(self.curves)):
                self.raised.add(name)
                found.append(Alarm(name, step, *finding))
        return found

    def recall(self, past: Iterable[Mapping[str, float | None]]) -> None:
        """What was measured before a resume."""
        for values in past:
            self.look(0, values)
