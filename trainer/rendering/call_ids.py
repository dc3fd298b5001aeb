"""Ids of tool calls as Mistral's templates want them: nine letters and digits."""

from contract.messages import Message

ID_LENGTH = 9


def with_short_ids(messages: list[Message]) -> list[Message]:
    """The messages with ids of nine letters and digits: those that are so stay, others are numbered as they come up in the chat.

    Numbered and not drawn, so that a chat only ever grows at its end, two answers to one prompt do not differ in their ids, and there is
    little to learn in them. A result without an id answers the first call that waits.
    """
    given: dict[str, str] = {}
    waiting: list[str] = []
    found = []

    def short(identifier: object) -> str:
        name = str(identifier) if identifier else f" {len(given)}"  # as no id begins: this one is nobody else's
        if name not in given:
            taken = set(given.values())
            free = (short_id(number) for number in range(1, len(given) + 2))
            fits = is_short(name) and name not in taken
            given[name] = name if fits else next(each for each in free if each not in taken)
        return given[name]

    for message in messages:
        if calls := message.get("tool_calls"):
            waiting = [short(call.get("id")) for call in calls]
            named = [{**call, "id": each} for call, each in zip(calls, waiting, strict=True)]
            message = {**message, "tool_calls": named}
        elif message["role"] == "tool":
            given_id = message.get("tool_call_id")
            answered = short(given_id) if given_id or not waiting else waiting[0]
            waiting = [each for each in waiting if each != answered]
            message = {**message, "tool_call_id": answered}
        found.append(message)
    return found


def short_id(number: int) -> str:
    """1 -> "000000001" """
    return f"{number:0{ID_LENGTH}}"


def is_short(identifier: str) -> bool:
    return len(identifier) == ID_LENGTH and identifier.isascii() and identifier.isalnum()
