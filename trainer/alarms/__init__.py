"""Alarms over a run's curves. `Watch` takes each step's metrics under TRL's names and returns newly raised alarms;
`remedy_for` suggests the one setting to change before resuming. The rules, with their papers, are in `rules`."""

from trainer.alarms.remedies import Remedy, remedy_for
from trainer.alarms.watch import Alarm, Watch

__all__ = ["Alarm", "Remedy", "Watch", "remedy_for"]
