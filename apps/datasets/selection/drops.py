"""Reasons why something that was judged makes no row."""

from __future__ import annotations

from enum import StrEnum


class Drop(StrEnum):
    """Why something that was judged makes no row."""

    TIE = "tie"
    BOTH_BAD = "both_bad"
    NO_MAJORITY = "no_majority"
    UNSURE = "unsure"
    WEAK = "weak"
    BOTH_FAILED = "both_failed"
    NO_STEPS = "no_steps"
    HELD_OUT = "held_out"
    SAME = "same"
    NO_SHARED_START = "no_shared_start"
    NO_TURN = "no_turn"
    NO_LABELS = "no_labels"
    NO_OPINION = "no_opinion"
    NOT_ACCEPTED = "not_accepted"
    NO_CORRECTION = "no_correction"
    OVERRULED = "overruled"
    UNREADABLE = "unreadable"


REASONS: dict[Drop, str] = {
    Drop.TIE: "Judged a tie",
    Drop.BOTH_BAD: "Both trajectories judged bad",
    Drop.NO_MAJORITY: "Annotators disagree: the lead is smaller than asked for",
    Drop.UNSURE: "Less certain than asked for",
    Drop.WEAK: "Weaker than the strength asked for",
    Drop.BOTH_FAILED: "Both trajectories failed",
    Drop.NO_STEPS: "A trajectory has no assistant step",
    Drop.HELD_OUT: "The task is held out, but was in the training split before",
    Drop.SAME: "Both trajectories have the same messages",
    Drop.NO_SHARED_START: "The trajectories have no opening message in common",
    Drop.NO_TURN: "The trajectories diverge at a result, not at an action",
    Drop.NO_LABELS: "No step was labeled",
    Drop.NO_OPINION: "Nobody said whether the trajectory is good",
    Drop.NOT_ACCEPTED: "Not accepted, and nobody corrected it",
    Drop.NO_CORRECTION: "Nobody gave a correction",
    Drop.OVERRULED: "A reviewer upheld a judgment that is excluded here",
    Drop.UNREADABLE: "It begins with an action, so there is no prompt",
}
