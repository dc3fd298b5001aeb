"""The quality of a scripted office worker: how often it avoids tempting shortcuts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Habits:
    """How a worker works: each number is the probability of doing the right thing where a shortcut tempts."""

    compares: float = 1.0
    """Looks for the match that is meant (by status, team, or subject) instead of taking the first of that name."""
    completes: float = 1.0
    """Continues until every mail is moved instead of stopping after one."""
    checks: float = 1.0
    """Reads the agenda before booking instead of taking the first hour."""
    acts: float = 1.0
    """Performs the final action instead of only saying that it's done."""
    copies: float = 1.0
    """Copies an id correctly instead of with one wrong digit."""
    thinks: bool = True
    """Writes down its reasons."""
    asks: float = 1.0
    """Asks what is meant instead of guessing."""
    looks: float = 1.0
    """Previews mails before sending them, and reads files before sharing them."""
    confirms: float = 1.0
    """Asks for confirmation before anything leaves the company."""
    states: float = 1.0
    """Says what it is about to do."""
    persists: float = 1.0
    """Retries when a tool fails instead of giving up."""


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
"""`demonstrator` makes the training demonstrations for the tiny model; it's imperfect so that there is something left to learn."""
