"""The older text notation of questions over REST: one aspect or question per line. Pages and newer clients send JSON."""

from contract.questions import POINTS, Allowed, BadQuestions, Question, read

OPTIONAL = "(optional)"


def read_aspects(text: str, allowed: Allowed) -> tuple[Question, ...]:
    """One aspect per line: its name, and after a colon the number of points of its scale (3, 5, or 7). Raises BadQuestions."""
    questions = []
    for line in _lines(text):
        name, _, points = (part.strip() for part in line.partition(":"))
        if points not in ("", "3", "5", "7"):
            raise BadQuestions(f"“{line}”: got {points!r} after the colon; expected 3, 5 or 7 points.")
        questions.append({"name": name, "type": "comparison", "points": int(points or 5), "required": False})
    return read(questions, allowed)


def read_lines(text: str, allowed: Allowed) -> tuple[Question, ...]:
    """One question per line, its parts separated by bars: text | points | label of 1 | label of the maximum.

    All but the first are optional. A question or a line that ends with (optional) needn't be answered. Raises BadQuestions.
    """
    questions = []
    for line in _lines(text):
        parts = [part.strip() for part in _without_mark(line).split("|")]
        name, points, low, high = [_without_mark(parts[0]), *parts[1:], "", "", ""][:4]
        required = parts[0] == name and _without_mark(line) == line
        if len(parts) > 4 or not (points == "" or (points.isdecimal() and int(points) in POINTS)):
            raise BadQuestions(f"“{line}”: expected question | 2 to 10 points | what 1 means | what the maximum means.")
        questions.append({"name": name, "points": int(points or 5), "low": low, "high": high, "required": required})
    return read(questions, allowed)


def _without_mark(text: str) -> str:
    return text[: -len(OPTIONAL)].strip() if text.lower().endswith(OPTIONAL) else text


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
