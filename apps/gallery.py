"""Every component on one page, for whoever builds pages. Not served in production (see apps.urls)."""

import math
from datetime import timedelta

from django import forms
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.timezone import now

from apps.accounts.models import Membership, Role, User, Workspace


class SampleForm(forms.Form):
    """One field of each kind; the first has an error."""

    name = forms.CharField(help_text="Shown in lists and in the lineage of every policy.")
    learning_rate = forms.FloatField(initial=5e-6)
    algorithm = forms.ChoiceField(choices=[("dpo", "DPO"), ("reward_model", "Reward model")])
    notes = forms.CharField(widget=forms.Textarea(attrs={"rows": 2}), required=False)
    resume = forms.BooleanField(required=False, help_text="Start from the last checkpoint, where there is one.")

    def clean_name(self) -> str:
        raise ValidationError("“dpo-3” is taken in this workspace. Choose another name.")


@login_not_required
def gallery(request: HttpRequest) -> HttpResponse:
    """The page. `?shape=wide` and `?shape=desk` show the other layouts; `?as=1` shows the shell as annotators see it."""
    role = Role(int(request.GET.get("as", Role.OWNER)))
    context = {
        "member": Membership(user=User(name="Ada Nowak"), workspace=Workspace(name="Shop agents"), role=role),
        "form": SampleForm({"name": "dpo-3", "algorithm": "dpo", "learning_rate": "5e-6", "resume": "on"}),
        "shape": request.GET.get("shape", ""),
        "curve": [
            (
                step,
                0.69 * math.exp(-step / 90) + 0.1 + 0.02 * math.sin(step / 3),
                0.5 + 0.4 * (1 - math.exp(-step / 60)),
            )
            for step in range(0, 301, 5)
        ],
        "calibration": [
            (x / 10, min(1.0, (x / 10) ** 1.3 + 0.04), max(0.0, x / 10 - 0.09), min(1.0, x / 10 + 0.07))
            for x in range(1, 10)
        ],
        "forest": [
            ("dpo-3 against base", 0.62, 0.55, 0.69),
            ("dpo-2 against base", 0.57, 0.49, 0.64),
            ("sft-1 against a very long policy name", 0.44, 0.31, 0.58),
        ],
        "lengths": [("1–4", 12, 3), ("5–8", 48, 21), ("9–16", 31, 40), ("17–32", 9, 25), ("33+", 2, 11)],
        "matrix": [("Ada", [10, 8, 6]), ("Ben", [8, 10, 7]), ("judge-1", [6, 7, 10])],
        "rows": [
            (
                f"order-{n:03}",
                "Buy the cheapest red kettle and mail the receipt to the office, then report the total",
                n % 3 != 1,
                4 + n * 3 % 17,
                now() - timedelta(minutes=7 * n * n),
            )
            for n in range(8)
        ],
        "values": [3, 5, 4, 6, 8, 7, 9, 12, 11, 14],
        "page": {"next": "a", "previous": ""},
        "recently": now() - timedelta(minutes=3),
    }
    return render(request, "gallery.html", context)
