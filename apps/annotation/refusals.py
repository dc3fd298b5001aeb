"""The errors of annotation, each with its own class. The message is shown to the person: what happened and what to do."""


class Refusal(Exception):
    """A request of an annotator or researcher that can't be fulfilled."""

    code = "refused"
    message = "This can't be done."

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.message)


class QueueNotOpen(Refusal):
    code = "queue_not_open"
    message = "This queue isn't open. A researcher has to open it first."


class NotForYou(QueueNotOpen):
    code = "not_for_you"
    message = (
        "This queue is for named people, and you aren't one of them. A researcher can change that in its settings."
    )


class DeskPaused(QueueNotOpen):
    """A researcher paused this person's work here."""

    code = "desk_paused"
    message = "A researcher paused you in this queue. Your work is saved."

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"{self.message} They say: {reason}" if reason else "")


class AlreadyJudged(Refusal):
    code = "already_judged"
    message = "You already judged this, perhaps in another tab. To change that answer, undo it."


class AlreadySkipped(Refusal):
    code = "already_skipped"
    message = "You skipped this. Undo the skip to judge it."


class TakenBack(Refusal):
    code = "taken_back"
    message = "This answer was undone. The item is open on your desk again; answer it there."


class PlaceLost(Refusal):
    code = "place_lost"
    message = "Your lease on this item ended, and other people have judged it since. It no longer needs you."


class NothingToUndo(Refusal):
    code = "nothing_to_undo"
    message = "There's nothing more to undo. Undo reaches back ten items."


class WrongKind(Refusal):
    code = "wrong_kind"
    message = "This queue asks for another kind of judgment. Reload the page."


class Incomplete(Refusal):
    code = "incomplete"
    message = "A required question of this queue isn't answered."


class AnswerTooLong(Refusal):
    code = "answer_too_long"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"This answer has {size:,} characters including the notes on its steps; at most {limit:,} are allowed."
        )


class BadAction(Refusal):
    code = "bad_action"
    message = "The policy couldn't have done this."


class CannotContinue(Refusal):
    code = "cannot_continue"
    message = "No policy can take over here."


class NothingToCompare(Refusal):
    code = "nothing_to_compare"
    message = "No two of the selected trajectories can be paired. Select more, or relax the rules for pairs."


class NothingToJudge(Refusal):
    code = "nothing_to_judge"
    message = "The selection is empty. Select some in the list of trajectories."


class NoSuchStep(Refusal):
    code = "no_such_step"

    def __init__(self, number: int, steps: int) -> None:
        super().__init__(
            f"There is no step {number}: this trajectory has {steps}. Nobody could ever be right about it."
        )
