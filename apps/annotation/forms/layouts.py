"""The form of desk layouts, sent by the desk's menu and the settings of a queue."""

from __future__ import annotations

from typing import Any

from django import forms

from apps.annotation.desk.layouts import complete, settings_of
from apps.annotation.models import Queue


class LayoutForm(forms.Form):
    """A choice for each setting of a queue's desk. Omitted settings stay unchanged."""

    def __init__(self, data: Any = None, *, queue: Queue, **options: Any) -> None:
        super().__init__(data, initial=complete(queue.kind, queue.layout), **options)
        for setting in settings_of(queue.kind):
            self.fields[setting.name] = forms.ChoiceField(
                label=setting.label, choices=setting.choices, required=False, widget=forms.RadioSelect
            )

    def settings(self) -> dict[str, str]:
        """The submitted settings."""
        return {name: value for name, value in self.cleaned_data.items() if value}
