"""The calendar, the chat, and the user."""

from typing import Any

from trainer.environments.office.desk import Day
from trainer.environments.office.workplace.room import Room
from trainer.environments.tools import ToolError


class Talk(Room):
    """Tools to book meetings, post messages, ask the user, and wait."""

    def read_agenda(self, day: Day) -> list[dict[str, Any]]:
        """Show what each working hour of a day is taken by; "free" where it is not.

        Args:
            day: The day of this week.
        """
        return [dict(entry) for entry in self._state["calendar"][day]]

    def book_meeting(self, day: Day, hour: int, address: str) -> dict[str, Any]:
        """Put a meeting with somebody into the calendar. Double bookings are not prevented.

        Args:
            day: The day of this week.
            hour: The hour at which it begins, from 9 to 16.
            address: With whom.
        """
        if not 9 <= hour <= 16:
            raise ToolError(f"hour must be from 9 to 16, got {hour}")
        self._check_address(address)
        self.conduct.acts()
        self.changes.append({"did": "booked", "day": day, "hour": hour, "address": address})
        return {"booked": hour}

    def read_channel(self, channel: str) -> list[dict[str, Any]]:
        """Show the last messages of a chat channel.

        Args:
            channel: The channel's name.
        """
        return [dict(message) for message in self._find_one("channels", "channel", channel)["messages"]]

    def post_message(self, channel: str, text: str) -> dict[str, Any]:
        """Post to a chat channel.

        Args:
            channel: The channel's name.
            text: What to say.
        """
        entry = self._find_one("channels", "channel", channel)
        self.conduct.acts()
        entry["messages"].append({"from": "you", "text": text})
        self.changes.append({"did": "posted", "channel": channel, "text": text})
        return {"posted": channel}

    def ask_user(self, question: str) -> dict[str, str]:
        """Ask the person you work for what they mean.

        Args:
            question: One question.
        """
        answers: dict[str, str] = self._state["user"].get("answers", {})
        question_text = question.lower()
        topic = next((topic for topic in answers if topic.lower() in question_text), None)
        if topic is None:
            return {"answer": "I have said all I know."}
        self.changes.append({"did": "asked", "about": topic})
        return {"answer": answers[topic]}

    def request_confirmation(self, item: str, address: str) -> dict[str, bool]:
        """Ask whether a draft or a file may leave the company.

        Args:
            item: The id of the draft or of the file.
            address: Where it would go.
        """
        self._check_address(address)
        confirmed = bool(self._state["user"].get("confirms", True))
        if confirmed:
            self._confirmed.add((item, address))
        self.changes.append({"did": "requested", "address": address})
        return {"confirmed": confirmed}

    def wait(self) -> dict[str, bool]:
        """Wait a moment, until calls are allowed again."""
        return {"waited": True}
