"""Forms to register and publish a policy."""

from __future__ import annotations

import re
from typing import Any, cast

from django import forms

from apps.accounts.models import Membership, User, Workspace
from apps.common.environments import SCRIPTS
from apps.common.names import NameField
from apps.policies.locations import weights_of
from apps.policies.models import Endpoint, Policy, Publication
from apps.policies.publication import publish_policy
from apps.policies.registration import register_model, register_script, register_served, register_server

KINDS = [
    (Policy.Kind.MODEL.value, "Language model"),
    (Policy.Kind.SCRIPTED.value, "Scripted rule"),
    (Policy.Kind.ENDPOINT.value, "Served model"),
]


NEEDED: dict[str, tuple[str, ...]] = {
    Policy.Kind.MODEL: ("location",),
    Policy.Kind.SCRIPTED: ("script",),
    Policy.Kind.ENDPOINT: ("location", "base_url"),
}
"""The fields that each kind requires."""


class PolicyForm(forms.Form):
    """The form of a new policy. Fields that don't apply to its kind are ignored."""

    kind = forms.ChoiceField(choices=KINDS, widget=forms.RadioSelect, initial=Policy.Kind.MODEL)
    name = NameField(max_length=200)
    location = forms.CharField(
        max_length=500,
        required=False,
        label="Model",
        help_text="A hub id (Qwen/Qwen3-0.6B), a folder on the workers that MODEL_ROOTS allows (/models/base), or the model's name on its server.",
    )
    script = forms.ChoiceField(required=False, choices=[(script, script) for script in SCRIPTS])
    base_url = forms.CharField(
        max_length=300, required=False, label="Server", help_text="OpenAI-compatible, such as http://127.0.0.1:8000/v1."
    )
    key_variable = forms.CharField(
        max_length=60,
        required=False,
        label="Key variable",
        help_text="The workers' environment variable with the API key, such as VLLM_API_KEY. ENDPOINT_KEYS there allows it for the server.",
    )
    description = forms.CharField(max_length=2000, required=False, widget=forms.Textarea(attrs={"rows": 2}))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in {name for names in NEEDED.values() for name in names}:
            self.fields[name].needed = True  # type: ignore[attr-defined]  # the template doesn't mark it as optional

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        for name in NEEDED.get(data.get("kind", ""), ()):
            if name in data and not data[name]:
                self.add_error(name, self.fields[name].error_messages["required"])
        return data

    def register(self, *, workspace: Workspace, by: User) -> Policy:
        """Register the policy described by the valid form. Raises PolicyRefused."""
        cleaned = self.cleaned_data
        name, description = cleaned["name"], cleaned["description"]
        match cleaned["kind"]:
            case Policy.Kind.SCRIPTED:
                return register_script(
                    workspace=workspace, name=name, script=cleaned["script"], description=description, by=by
                )
            case Policy.Kind.ENDPOINT:
                return register_served(
                    workspace=workspace,
                    name=name,
                    base_url=cleaned["base_url"],
                    model=cleaned["location"],
                    key_variable=cleaned["key_variable"],
                    description=description,
                    by=by,
                )
            case _:
                return register_model(
                    workspace=workspace, name=name, location=cleaned["location"], description=description, by=by
                )


class PublishForm(forms.Form):
    """How to publish a policy: only the ways that its run's weights support. The server's fields are ignored for a folder."""

    way = forms.ChoiceField(choices=(), widget=forms.RadioSelect, label="Method")
    name = NameField(
        max_length=80,
        help_text="What it's called here. Publishing under a name in use replaces the policy behind it, once verified.",
    )
    endpoint = forms.ModelChoiceField(
        Endpoint.objects.none(), required=False, empty_label="Another server, given below", label="Server"
    )
    base_url = forms.CharField(
        max_length=3000,
        required=False,
        label="Address",
        help_text="vLLM's address, such as http://127.0.0.1:8000/v1. To publish on several servers, separate their addresses with spaces.",
    )
    key_variable = forms.CharField(
        max_length=60,
        required=False,
        help_text="The workers' environment variable with the server's API key, such as VLLM_API_KEY. ENDPOINT_KEYS there allows it.",
    )

    def __init__(self, *args: Any, policy: Policy, member: Membership, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.policy = policy
        weights = weights_of(policy)
        ways = [way for way in Publication.Way if way != Publication.Way.ADAPTER or (weights and weights.has_adapter)]
        cast("forms.ChoiceField", self.fields["way"]).choices = [(way.value, way.label) for way in ways]
        self.fields["way"].initial = (
            Publication.Way.ADAPTER if Publication.Way.ADAPTER in ways else Publication.Way.FOLDER
        ).value
        self.fields["name"].initial = re.sub(r"[^\w.-]+", "-", policy.name.lower()).strip("-._")[:80]
        servers = Endpoint.objects.visible_to(member).order_by("name")
        cast("forms.ModelChoiceField[Endpoint]", self.fields["endpoint"]).queryset = servers
        first_servers = list(servers[:2])
        self.fields["endpoint"].initial = first_servers[0] if len(first_servers) == 1 else None

    def publish(self, *, by: User) -> Publication:
        """Request the publication described by the valid form. Raises PublishingRefused, BadEndpoint."""
        cleaned = self.cleaned_data
        endpoint = None
        if cleaned["way"] != Publication.Way.FOLDER:
            base_url, *replicas = cleaned["base_url"].split() or [""]
            endpoint = cleaned["endpoint"] or register_server(
                workspace=self.policy.workspace,
                base_url=base_url,
                replicas=replicas,
                key_variable=cleaned["key_variable"],
            )
        return publish_policy(policy=self.policy, way=cleaned["way"], name=cleaned["name"], endpoint=endpoint, by=by)
