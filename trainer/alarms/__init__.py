"""Alarms over a run's curves. `Watch` is fed each step's metrics under TRL's names and says which alarms rise, each once;
`remedy_for` names the one setting to resume with. The rules, and the paper behind each, are in `rules`."""

from trainer.alarms.remedies import Remedy, remedy_for
from trainer.alarms.watch import Alarm, Watch

__all__ = ["Alarm", "Remedy", "Watch", "remedy_for"]
