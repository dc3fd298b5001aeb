"""The office of the higher levels: mail, files, spreadsheets, calendar, and chat, with rules and with tools that sometimes fail."""

from trainer.environments.office.workplace.faults import UnreliableToolset
from trainer.environments.office.workplace.files import Files
from trainer.environments.office.workplace.mail import Mail
from trainer.environments.office.workplace.sheets import Sheets
from trainer.environments.office.workplace.talk import Talk


class Workplace(Mail, Files, Sheets, Talk):
    """All apps together. Every public method of its base classes is a tool."""


TOOLS = UnreliableToolset(Workplace)
