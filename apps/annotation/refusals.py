"""What labelling refuses, each by its name. The text is for the person: what happened and what to do."""


class Refusal(Exception):
    """Something that an annotator or researcher asked for and cannot have."""

    code = "refused"
    message = "This cannot be done."

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.message)


class QueueNotOpen(Refusal):
    code = "queue_not_open"
    message = "This queue is not open. Nothing new is given out until a researcher opens it."


class NotForYou(QueueNotOpen):
    code = "not_for_you"
    message = (
        "This queue is for named people, and you are not among them. A researcher can change that in its settings."
    )


class DeskPaused(QueueNotOpen):
    """A researcher asked this person to stop here for now."""

    code = "desk_paused"
    message = "A researcher asked you to stop here for now. What you did is saved."

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"{self.message} They say: {reason}" if reason else "")


class AlreadyJudged(Refusal):
    code = "already_judged"
    message = "You already judged this, in another tab perhaps. To change that answer, undo it."


class AlreadySkipped(Refusal):
    code = "already_skipped"
    message = "You skipped this. Undo the skip to judge it."


class TakenBack(Refusal):
    code = "taken_back"
    message = "This answer was taken back. It is open on your desk again; answer it there."


class PlaceLost(Refusal):
    code = "place_lost"
    message = "Your hold on this ended, and other people have judged it since. It no longer needs you."


class NothingToUndo(Refusal):
    code = "nothing_to_undo"
    message = "There is nothing more to undo here. Undo reaches back ten items."


class WrongKind(Refusal):
    code = "wrong_kind"
    message = "This queue asks for another kind of judgement. Reload the page."


class Incomplete(Refusal):
    code = "incomplete"
    message = "Something that this queue asks for is not answered."


class BadAction(Refusal):
    code = "bad_action"
    message = "The policy could not have done this."


class CannotContinue(Refusal):
    code = "cannot_continue"
    message = "No policy can take over here."


class NothingToCompare(Refusal):
    code = "nothing_to_compare"
    message = "No two of the selected runs make a pair. Widen the selection or the rules for pairs."


class NothingToJudge(Refusal):
    code = "nothing_to_judge"
    message = "The selection is empty. Pick runs in the list of trajectories."


class NoSuchStep(Refusal):
    code = "no_such_step"

    def __init__(self, number: int, steps: int) -> None:
        super().__init__(f"There is no step {number}: this run has {steps}. Nobody could ever be right about it.")
