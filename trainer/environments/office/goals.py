"""The goals of a task, and the check of the desk's final state.

A goal holds what the instruction names (so that a scripted policy can act on it) and the corresponding ids and addresses
in this world (so that the check is exact).
"""

from contract.values import JsonObject
from trainer.environments.protocol import Score


def score(goals: list[JsonObject], state: JsonObject, initial: JsonObject) -> Score:
    """Subgoals reached minus unwanted changes, as a share of all subgoals, at least -1.

    An unwanted change is anything sent, moved, or booked that no goal asks for, or done twice.
    """
    subgoals: dict[str, bool] = {}
    expected: list[JsonObject] = []
    for goal in goals:
        for name, changes in subgoals_of(goal).items():
            done = next((change for change in changes if change in changes_in(state, initial)), None)
            subgoals[name] = done is not None
            expected += [done] if done is not None else []
    unwanted = len(changes_in(state, initial)) - len(expected)
    reward = max(-1.0, (len(expected) - unwanted) / max(1, len(subgoals)))
    return Score(reward=round(reward, 4), success=unwanted == 0 and all(subgoals.values()), subgoals=subgoals)


def subgoals_of(goal: JsonObject) -> dict[str, list[JsonObject]]:
    """Name -> the changes, any one of which reaches it."""
    match goal["goal"]:
        case "file_sent":
            return {f"send {goal['file']}": [{"address": goal["address"], "file": goal["file"]}]}
        case "mail_forwarded":
            return {f"forward {goal['mail']}": [{"address": goal["address"], "mail": goal["mail"]}]}
        case "mails_archived":
            return {f"archive {mail}": [{"moved": mail, "folder": "archive"}] for mail in goal["mails"]}
        case "meeting_booked":
            meeting = {"day": goal["day"], "address": goal["address"]}
            return {f"book {goal['person']}": [{**meeting, "hour": hour} for hour in goal["hours"]]}
        case other:
            raise ValueError(
                f"Got a goal {other!r}, expected file_sent, mail_forwarded, mails_archived or meeting_booked."
            )


def changes_in(state: JsonObject, initial: JsonObject) -> list[JsonObject]:
    """All differences from the initial state, one entry per change."""
    folder_before = {mail["mail"]: mail["folder"] for mail in initial["mails"]}
    moved = [
        {"moved": mail["mail"], "folder": mail["folder"]}
        for mail in state["mails"]
        if mail["folder"] != folder_before[mail["mail"]]
    ]
    return [*state["sent"], *moved, *state["booked"]]
