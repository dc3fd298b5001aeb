"""The quality of a scripted office worker: how often it takes a tempting shortcut."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Habits:
    """How a worker works: each number is the probability of doing the right thing where a shortcut tempts."""

    compares: float = 1.0
    """Looks for what is meant (status, team, subject) rather than taking the first of that name."""
    completes: float = 1.0
    """Goes on until every mail is moved rather than stopping after one."""
    checks: float = 1.0
    """Reads the agenda before booking rather than taking the first hour."""
    acts: float = 1.0
    """Does the last thing rather than only saying that it is done."""
    copies: float = 1.0
    """Copies an id rightly rather than with one digit off."""
    thinks: bool = True
    """Notes down its reasons."""
    asks: float = 1.0
    """Asks what is meant rather than guessing."""
    looks: float = 1.0
    """Previews what it sends, and reads what it shares."""
    confirms: float = 1.0
    """Asks before something leaves the company."""
    states: float = 1.0
    """Says what it is about to do."""
    persists: float = 1.0
    """Tries again where a tool fails rather than giving up."""


HABITS: dict[str, Habits] = {
    "expert": Habits(),
    "hasty": Habits(
        compares=0.4, completes=0.5, checks=0.4, acts=0.85, asks=0.3, looks=0.3, confirms=0.4, states=0.5, persists=0.7
    ),
    "careless": Habits(
        compares=0.8, completes=0.8, checks=0.8, acts=0.95, copies=0.75, asks=0.8, looks=0.7, confirms=0.8, persists=0.8
    ),
    "demonstrator": Habits(
        compares=0.7,
        completes=0.7,
        checks=0.7,
        acts=0.9,
        thinks=False,
        asks=0.6,
        looks=0.6,
        confirms=0.6,
        states=0.8,
        persists=0.8,
    ),
}
"""`demonstrator` makes the training demonstrations for the tiny model: imperfect on purpose, so that there is something to learn."""
