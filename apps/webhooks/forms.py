"""Forms of destinations."""

from __future__ import annotations

from django import forms

from apps.common.names import NameField
from apps.webhooks.events import EventType
from apps.webhooks.models import Destination


class ChangeForm(forms.Form):
    """The changeable properties of a destination. Its address isn't one, since deliveries refer to it."""

    name = NameField(max_length=100, help_text="What it is, such as “deploy bot” or “#agents in Slack”.")
    events = forms.MultipleChoiceField(choices=EventType.choices, widget=forms.CheckboxSelectMultiple)


class TurnForm(forms.Form):
    """Whether a destination is to be on, as its button says: it may have been turned off since the page was loaded."""

    is_on = forms.BooleanField(required=False)


class DestinationForm(ChangeForm):
    """A new destination."""

    kind = forms.ChoiceField(
        choices=Destination.Kind.choices, initial=Destination.Kind.WEBHOOK, widget=forms.RadioSelect
    )
    address = forms.CharField(
        max_length=500,
        help_text="A URL of your server; of a Slack channel, its incoming webhook; or a member's e-mail address.",
    )
    field_order = ["kind", "name", "address", "events"]
