"""The forms of traffic splits, feedback keys, prices, and usage limits."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from django import forms
from django.db.models import Q

from apps.accounts.models import Membership
from apps.common.names import NameField
from apps.gateway.spending.models import DECIMALS, LIMITS, WHOLE_DIGITS
from apps.gateway.splits.changes import MAX_ARMS, ArmPlan, version_of
from apps.gateway.splits.models import LARGEST_CANARY, LARGEST_WEIGHT, TrafficSplit
from apps.gateway.targets import answering
from apps.policies.models import Endpoint, Policy

REGULAR_ARMS = MAX_ARMS - 1
"""Arms that a form offers besides the canary; those of a split that has more, without a canary, are all there."""
USUAL_CANARY = 5
MAX_PRICED = 500
"""Maximum number of policies and endpoints to choose from; others can be priced with REST."""


class ArmFields(NamedTuple):
    """The two fields of an arm."""

    policy: forms.BoundField
    weight: forms.BoundField


class ArmsForm(forms.Form):
    """The arms of a split and their shares."""

    unit = forms.ChoiceField(
        choices=TrafficSplit.Unit.choices,
        initial=TrafficSplit.Unit.SESSION,
        label="Assign arms",
        help_text="The same task, or the same `unit` that a session names in its metadata, always has the same arm. A live experiment needs a choice other than “By task”.",
    )
    canary = forms.ModelChoiceField(Policy.objects.none(), required=False, empty_label="None", label="Canary")
    percent = forms.IntegerField(
        min_value=1, max_value=LARGEST_CANARY, initial=USUAL_CANARY, label="Percent", required=False
    )

    seen = forms.CharField(required=False, max_length=40, widget=forms.HiddenInput)

    def __init__(self, *args: Any, member: Membership, split: TrafficSplit | None = None, **kwargs: Any) -> None:
        arms = list(split.arms.order_by("pk")) if split else []
        super().__init__(*args, **kwargs)
        # Arms that aren't served anymore are choices, too: otherwise they would be removed, unsaid, with any other change.
        visible = Policy.objects.visible_to(member)
        served = visible.filter(Q(pk__in=answering(member).values("pk")) | Q(pk__in=[arm.policy_id for arm in arms]))
        served = served.order_by("-id")
        regular_arms = [arm for arm in arms if not arm.is_canary]
        self._numbers = range(1, max(REGULAR_ARMS, len(regular_arms)) + 1)
        for number in self._numbers:
            arm = regular_arms[number - 1] if number <= len(regular_arms) else None
            self.fields[f"policy_{number}"] = forms.ModelChoiceField(
                served,
                required=number == 1,
                empty_label="Choose a policy" if number == 1 else "None",
                label=f"Arm {number}",
                initial=arm.policy_id if arm else None,
            )
            self.fields[f"weight_{number}"] = forms.IntegerField(
                min_value=1,
                max_value=LARGEST_WEIGHT,
                required=False,
                label=f"Weight {number}",
                initial=arm.weight if arm else 1,
            )
            self.fields[f"weight_{number}"].needed = True  # type: ignore[attr-defined]  # it has a value: it isn't called optional
        self.fields["percent"].needed = True  # type: ignore[attr-defined]
        cast("forms.ModelChoiceField[Policy]", self.fields["canary"]).queryset = served
        if split:
            self.fields["unit"].initial = split.unit
            self.fields["seen"].initial = version_of(split)
        if canary := next((arm for arm in arms if arm.is_canary), None):
            self.fields["canary"].initial, self.fields["percent"].initial = canary.policy_id, canary.weight

    @property
    def arm_fields(self) -> list[ArmFields]:
        return [ArmFields(self[f"policy_{number}"], self[f"weight_{number}"]) for number in self._numbers]

    @property
    def plans(self) -> list[ArmPlan]:
        """The arms in the validated form."""
        data = self.cleaned_data
        arms = [
            ArmPlan(policy, data[f"weight_{number}"] or 1)
            for number in self._numbers
            if (policy := data[f"policy_{number}"])
        ]
        canary = [ArmPlan(data["canary"], data["percent"] or USUAL_CANARY, is_canary=True)] if data["canary"] else []
        return arms + canary

    def refuse(self, field: str, message: str) -> None:
        """Show a refusal at the field that it's about."""
        self.add_error({"arms": "policy_1"}.get(field, field) or None, message)


class NewSplitForm(ArmsForm):
    """A split to create."""

    name = NameField(
        max_length=80, help_text="The name that agents send as `model`, or as `split` when they open a session."
    )
    environment = forms.CharField(
        max_length=100,
        required=False,
        help_text="The environment of its tasks. Its champion answers if an arm can't be reached, and while the split is off.",
    )
    champion = forms.ModelChoiceField(
        Policy.objects.none(),
        required=False,
        empty_label="The current champion",
        help_text="Only if the environment has no champion yet: it becomes the champion.",
    )

    def __init__(self, *args: Any, member: Membership, **kwargs: Any) -> None:
        super().__init__(*args, member=member, **kwargs)
        cast("forms.ModelChoiceField[Policy]", self.fields["champion"]).queryset = _served(member)


def _served(member: Membership) -> Any:
    return answering(member).order_by("-id")


class FeedbackKeyForm(forms.Form):
    name = NameField(max_length=100, help_text="The site or app that uses it, such as “help center”.")


class UsageLimitsForm(forms.Form):
    """Usage limits; an empty field means no limit."""

    requests_a_minute = forms.IntegerField(min_value=1, max_value=2**31 - 1, required=False)
    tokens_a_minute = forms.IntegerField(min_value=1, max_value=2**31 - 1, required=False)
    dollars_a_day = forms.DecimalField(min_value=0, max_digits=12, decimal_places=2, required=False)
    session_requests_a_minute = forms.IntegerField(min_value=1, max_value=2**31 - 1, required=False)
    session_tokens_a_minute = forms.IntegerField(min_value=1, max_value=2**31 - 1, required=False)
    session_dollars_a_day = forms.DecimalField(min_value=0, max_digits=12, decimal_places=2, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in LIMITS:
            self.fields[name].label = name.removeprefix("session_").replace("_", " ").capitalize()
            self.fields[name].needed = True  # type: ignore[attr-defined]  # empty is a choice: it isn't called optional
            self.fields[name].widget.attrs["placeholder"] = "No limit"


class PriceForm(forms.Form):
    """Prices of tokens for a policy or an endpoint."""

    of = forms.ChoiceField(label="Policy or endpoint")
    input = forms.DecimalField(min_value=0, max_digits=WHOLE_DIGITS + DECIMALS, decimal_places=DECIMALS, label="Input")
    cached = forms.DecimalField(
        min_value=0, max_digits=WHOLE_DIGITS + DECIMALS, decimal_places=DECIMALS, required=False, label="Cached input"
    )
    output = forms.DecimalField(
        min_value=0, max_digits=WHOLE_DIGITS + DECIMALS, decimal_places=DECIMALS, label="Output"
    )

    def __init__(self, *args: Any, member: Membership, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        policies = _served(member)[:MAX_PRICED]
        endpoints = Endpoint.objects.visible_to(member).order_by("name")[:MAX_PRICED]
        self._named = {f"policy {policy.pk}": policy for policy in policies} | {
            f"endpoint {endpoint.pk}": endpoint for endpoint in endpoints
        }
        choices = [("Endpoints", endpoints, "endpoint"), ("Policies", policies, "policy")]
        cast("forms.ChoiceField", self.fields["of"]).choices = [
            (title, [(f"{kind} {row.pk}", str(row)) for row in rows]) for title, rows, kind in choices
        ]

    @property
    def has_choices(self) -> bool:
        return bool(self._named)

    @property
    def price(self) -> dict[str, Any]:
        """The validated price."""
        data = dict(self.cleaned_data)
        of = data.pop("of")
        return {**data, of.partition(" ")[0]: self._named[of]}
