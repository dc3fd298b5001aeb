"""Forms of exports and imports of a workspace."""

from __future__ import annotations

from django import forms


class ExportForm(forms.Form):
    include_weights = forms.BooleanField(
        label="Include the models of training runs",
        required=False,
        help_text="Their weights can be far larger than everything else.",
    )


class ImportForm(forms.Form):
    archive = forms.FileField(
        label="Archive",
        help_text="A zip file written by an export of a workspace.",
        error_messages={"required": "Choose the archive. If your password was asked for, choose it again."},
    )
