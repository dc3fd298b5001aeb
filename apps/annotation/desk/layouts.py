"""The layout of a person's desk: side by side or stacked, text size, what is collapsed.

Layouts are display settings applied by the browser: whatever they are, the server sends the same item with the same sides.
In order of precedence: the person's choice in this queue, their choice for this kind of queue, the queue's default, each setting's first choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Q

from apps.accounts.models import User
from apps.annotation.kinds import KINDS
from apps.annotation.models import DeskLayout, LayoutChoice, Queue
from apps.annotation.models.layouts import MAX_NAME_LENGTH
from apps.annotation.refusals import Refusal
from apps.common.text_encoding import is_storable

MAX_LAYOUTS = 20
"""Maximum number of saved layouts per person."""

Settings = Mapping[str, str]
"""Values by setting name; a missing setting has its first choice."""


class Setting(NamedTuple):
    name: str
    label: str
    choices: tuple[tuple[str, str], ...]
    """Values with their labels; the first is the default."""
    needs: str = ""
    """Attribute of the queue's kind that must be true for the setting to apply."""


OPEN_OR_FOLDED = (("open", "Open"), ("folded", "Folded"))
FOLDED_OR_OPEN = OPEN_OR_FOLDED[::-1]
SETTINGS = (
    Setting(
        "sides",
        "Trajectories",
        (("columns", "Side by side"), ("stacked", "Stacked"), ("one", "One at a time")),
        needs="has_sides",
    ),
    Setting("bar", "Answer bar", (("bottom", "Below"), ("line", "One line"), ("right", "Right"))),
    Setting("text", "Text", (("normal", "Normal"), ("large", "Large"), ("largest", "Largest"))),
    Setting("width", "Lines", (("full", "Full width"), ("short", "80 characters"))),
    Setting("task", "Task", FOLDED_OR_OPEN),
    Setting("same", "Identical steps", FOLDED_OR_OPEN, needs="has_sides"),
    Setting("reasoning", "Reasoning", OPEN_OR_FOLDED),
    Setting("results", "Results", OPEN_OR_FOLDED),
    Setting("questions", "Questions", FOLDED_OR_OPEN, needs="folds_questions"),
)


class LayoutRefused(Refusal):
    code = "layout_refused"


class Row(NamedTuple):
    """A setting as shown in the menu."""

    setting: Setting
    value: str


@dataclass(frozen=True)
class Arrangement:
    """The layout of one person's desk in a queue."""

    settings: Settings
    """A value for each setting that applies to this kind of queue."""
    layout: DeskLayout | None
    """The saved layout in use; None: the queue's default."""
    is_changed: bool
    """Whether there are unsaved changes to it."""
    is_of_kind: bool
    """Whether `layout` is used in all queues of this kind."""
    saved: list[DeskLayout]
    undo: str
    """Description of the action that can be undone."""

    @property
    def rows(self) -> list[Row]:
        return [Row(setting, self.settings[setting.name]) for setting in SETTINGS if setting.name in self.settings]


def settings_of(kind: str) -> list[Setting]:
    """The settings that apply to desks of this kind."""
    return [setting for setting in SETTINGS if not setting.needs or getattr(KINDS[kind], setting.needs)]


def complete(kind: str, *layers: Settings) -> dict[str, str]:
    """A value for each setting of this kind, from the first layer that has a valid one."""
    values = {}
    for setting in settings_of(kind):
        choices = [value for value, _ in setting.choices]
        stored = (layer[setting.name] for layer in layers if layer.get(setting.name) in choices)
        values[setting.name] = next(stored, choices[0])
    return values


def trimmed(kind: str, settings: Settings) -> dict[str, str]:
    """The settings as stored in a queue's default: without default values."""
    defaults = complete(kind)
    return {name: value for name, value in complete(kind, settings).items() if value != defaults[name]}


def arrangement_of(queue: Queue, user: User) -> Arrangement:
    """The layout of this person's desk in this queue."""
    choices = LayoutChoice.objects.filter(Q(queue=queue) | Q(kind=queue.kind), user=user).select_related("layout")
    by_kind = {bool(choice.kind): choice for choice in choices}
    of_kind, of_queue = by_kind.get(True), by_kind.get(False)
    choice = of_queue or of_kind
    layout = choice.layout if choice else None
    changes = of_queue.changes if of_queue else {}
    base = _base(queue, layout)
    settings = complete(queue.kind, changes, base)
    return Arrangement(
        settings=settings,
        layout=layout,
        is_changed=settings != base,
        is_of_kind=bool(layout and of_kind and of_kind.layout_id == layout.pk),
        saved=list(DeskLayout.objects.filter(user=user).order_by("name")),
        undo=of_queue.undo.get("words", "") if of_queue else "",
    )


def _base(queue: Queue, layout: DeskLayout | None) -> dict[str, str]:
    """A saved layout as it applies in this queue: what it was saved without, in a queue of another kind, is the queue's default."""
    return complete(queue.kind, layout.settings if layout else {}, queue.layout)


@transaction.atomic
def arrange(*, queue: Queue, user: User, settings: Settings) -> None:
    """Use these settings in this queue, without saving them under a name."""
    choice = _held(queue, user)
    before = _base(queue, choice.layout)
    layout = complete(queue.kind, settings, choice.changes, before)
    _act(choice, "the change", changes={name: value for name, value in layout.items() if value != before[name]})


@transaction.atomic
def choose(*, queue: Queue, user: User, layout: DeskLayout | None) -> None:
    """Use a saved layout in this queue or, with None, the queue's default; unsaved changes are dropped."""
    _act(_held(queue, user), "the choice", layout=layout, changes={})


@transaction.atomic
def save_new(*, queue: Queue, user: User, name: str) -> DeskLayout:
    """Save the current settings as a new layout and use it here. Raises LayoutRefused."""
    choice = _held(queue, user)
    name = _checked(user, name)
    _refuse_too_many(user)
    layout = DeskLayout.objects.create(user=user, name=name, settings=dict(arrangement_of(queue, user).settings))
    _act(choice, f"saving “{name}”", touched={str(layout.pk): None}, layout=layout, changes={})
    return layout


@transaction.atomic
def save_changes(*, queue: Queue, user: User) -> None:
    """Save the current settings to the layout in use here. Raises LayoutRefused."""
    choice = _held(queue, user)
    layout = _in_use(choice)
    before = _stored(layout)
    layout.settings = {**layout.settings, **arrangement_of(queue, user).settings}
    layout.save(update_fields=["settings"])
    _act(choice, f"the change of “{layout}”", touched={str(layout.pk): before}, changes={})


@transaction.atomic
def rename(*, queue: Queue, user: User, name: str) -> None:
    """Rename the layout in use here. Raises LayoutRefused."""
    choice = _held(queue, user)
    layout = _in_use(choice)
    before = _stored(layout)
    layout.name = _checked(user, name, but=layout)
    layout.save(update_fields=["name"])
    _act(choice, f"renaming “{before['name']}”", touched={str(layout.pk): before})


@transaction.atomic
def delete(*, queue: Queue, user: User) -> None:
    """Delete the layout in use here; queues that used it return to their defaults. Raises LayoutRefused."""
    choice = _held(queue, user)
    layout = _in_use(choice)
    before = {**_stored(layout), "choices": list(layout.choices.values_list("pk", flat=True))}
    touched = {str(layout.pk): before}
    _act(choice, f"deleting “{layout}”", touched=touched, layout=None, changes={})
    layout.delete()


@transaction.atomic
def use_for_kind(*, queue: Queue, user: User, wanted: bool) -> None:
    """Start or stop using this queue's layout in all queues of its kind where this person made no other choice. Raises LayoutRefused."""
    choice = _held(queue, user)
    layout = _in_use(choice)
    if wanted:
        LayoutChoice.objects.update_or_create(user=user, kind=queue.kind, defaults={"layout": layout})
    else:
        LayoutChoice.objects.filter(user=user, kind=queue.kind).delete()


@transaction.atomic
def undo(*, queue: Queue, user: User) -> None:
    """Undo the last change in this queue. Raises LayoutRefused."""
    choice = _held(queue, user)
    before = choice.undo
    if not before:
        raise LayoutRefused("There is nothing to undo.")
    for pk, stored in before["touched"].items():
        if stored is None:
            DeskLayout.objects.filter(user=user, pk=pk).delete()
            continue
        existing = DeskLayout.objects.filter(user=user, pk=pk).first()
        if existing is None:
            _refuse_too_many(user)
        name = _checked(user, stored["name"], but=existing)
        values = {"name": name, "settings": stored["settings"]}
        layout, _ = DeskLayout.objects.update_or_create(pk=pk, user=user, defaults=values)
        LayoutChoice.objects.filter(user=user, pk__in=stored.get("choices", ()), layout=None).update(layout=layout)
    choice.layout = DeskLayout.objects.filter(user=user, pk=before["layout"]).first()
    choice.changes, choice.undo = before["changes"], {}
    choice.save(update_fields=["layout", "changes", "undo"])


def _held(queue: Queue, user: User) -> LayoutChoice:
    """This person's choice in this queue. Locks the person's row, which serializes changes from two tabs."""
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    choice = LayoutChoice.objects.select_related("layout").filter(user=user, queue=queue).first()
    if choice is None:
        of_kind = LayoutChoice.objects.filter(user=user, kind=queue.kind).first()
        layout = of_kind.layout if of_kind else None
        choice = LayoutChoice.objects.create(user=user, queue=queue, layout=layout)
    return choice


def _in_use(choice: LayoutChoice) -> DeskLayout:
    if choice.layout is None:
        raise LayoutRefused("The queue's default is in use. Choose one of your layouts first.")
    return choice.layout


def _act(choice: LayoutChoice, description: str, /, *, touched: dict[str, Any] | None = None, **columns: Any) -> None:
    """Change the choice and keep the previous state for undo."""
    layout = str(choice.layout_id) if choice.layout_id else None
    undo = {"words": description, "layout": layout, "changes": choice.changes, "touched": touched or {}}
    for name, value in columns.items():
        setattr(choice, name, value)
    choice.undo = undo
    choice.save(update_fields=["undo", *columns])


def _stored(layout: DeskLayout) -> dict[str, Any]:
    return {"name": layout.name, "settings": layout.settings}


def _refuse_too_many(user: User) -> None:
    if DeskLayout.objects.filter(user=user).count() >= MAX_LAYOUTS:
        raise LayoutRefused(f"You have {MAX_LAYOUTS} layouts, the most that are kept. Delete one first.")


def _checked(user: User, name: str, but: DeskLayout | None = None) -> str:
    """Validate a layout's name for this person. Raises LayoutRefused."""
    name = " ".join(name.split())
    if not name or len(name) > MAX_NAME_LENGTH or not is_storable(name):
        raise LayoutRefused(f"A layout needs a name of 1 to {MAX_NAME_LENGTH} characters, none of them null.")
    same_name = DeskLayout.objects.filter(user=user, name=name)
    if (same_name.exclude(pk=but.pk) if but else same_name).exists():
        raise LayoutRefused(f"You have another layout called “{name}”. Choose another name.")
    return name
