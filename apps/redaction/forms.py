"""The forms of the redaction rules page."""

from __future__ import annotations

from django import forms

from apps.common.names import NameField
from apps.redaction.detectors import DETECTORS
from apps.redaction.patterns import MAX_PATTERN_LENGTH
from apps.redaction.rules import MAX_SAMPLE_LENGTH


class DetectorForm(forms.Form):
    detector = forms.ChoiceField(choices=[(key, detector.name) for key, detector in DETECTORS.items()])


class PatternForm(forms.Form):
    name = NameField(max_length=40, help_text="The marker shows it: [redacted: ticket].")
    pattern = forms.CharField(
        max_length=MAX_PATTERN_LENGTH,
        strip=False,
        help_text="A regular expression in RE2 syntax, such as \\bT-\\d{6}\\b.",
    )


class SampleForm(forms.Form):
    prefix = "test"
    sample = forms.CharField(
        max_length=MAX_SAMPLE_LENGTH,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 6}),
        help_text="It isn't kept.",
    )
    pattern = forms.CharField(
        max_length=MAX_PATTERN_LENGTH,
        strip=False,
        required=False,
        help_text="To try one that isn't a rule yet. Without it, all rules are tried.",
    )
