"""The form to label many trajectories at once."""

from __future__ import annotations

from django import forms


class LabelAllForm(forms.Form):
    """One label, and the number of trajectories that the sender was shown."""

    thumb = forms.TypedChoiceField(
        label="Label", choices=[("1", "Good"), ("-1", "Bad")], coerce=int, widget=forms.RadioSelect
    )
    reason = forms.CharField(label="Why", required=False, max_length=5000, widget=forms.Textarea(attrs={"rows": 2}))
    seen = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
