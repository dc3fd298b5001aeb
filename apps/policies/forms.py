"""The form that registers a policy."""

from __future__ import annotations

from django import forms

from apps.accounts.models import User, Workspace
from apps.common.environments import SCRIPTS
from apps.policies.models import Policy
from apps.policies.registering import register_model, register_script, register_served

KINDS = [
    (Policy.Kind.MODEL.value, "Language model"),
    (Policy.Kind.SCRIPTED.value, "Scripted rule"),
    (Policy.Kind.ENDPOINT.value, "Served model"),
]


class PolicyForm(forms.Form):
    """Which of its fields count depends on the kind; the others are ignored."""

    kind = forms.ChoiceField(choices=KINDS, widget=forms.RadioSelect, initial=Policy.Kind.MODEL)
    name = forms.CharField(max_length=200)
    location = forms.CharField(
        max_length=500,
        required=False,
        label="Model",
        help_text="A hub id (Qwen/Qwen3-0.6B), a folder on the workers (/models/base), or the model’s name on its server.",
    )
    script = forms.ChoiceField(required=False, choices=[(script, script) for script in SCRIPTS])
    base_url = forms.CharField(
        max_length=300, required=False, label="Server", help_text="OpenAI-compatible, such as http://127.0.0.1:8000/v1."
    )
    key_variable = forms.CharField(
        max_length=60,
        required=False,
        label="Key variable",
        help_text="The workers’ environment variable with the API key, such as VLLM_API_KEY. The key itself is never stored.",
    )
    description = forms.CharField(max_length=2000, required=False, widget=forms.Textarea(attrs={"rows": 2}))

    def register(self, *, workspace: Workspace, by: User) -> Policy:
        """Register what the valid form describes. Raises PolicyRefused."""
        given = self.cleaned_data
        name, description = given["name"], given["description"]
        match given["kind"]:
            case Policy.Kind.SCRIPTED:
                return register_script(
                    workspace=workspace, name=name, script=given["script"], description=description, by=by
                )
            case Policy.Kind.ENDPOINT:
                return register_served(
                    workspace=workspace,
                    name=name,
                    base_url=given["base_url"],
                    model=given["location"],
                    key_variable=given["key_variable"],
                    description=description,
                    by=by,
                )
            case _:
                return register_model(
                    workspace=workspace, name=name, location=given["location"], description=description, by=by
                )
