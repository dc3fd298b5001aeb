"""The settings of queues, as researchers send them. What is sent from the desk is in `desk_forms`."""

from typing import Any

from django import forms

from apps.annotation.pairing import Pairing

PAIRS = [("all", "All pairs"), ("some", "Some, drawn by chance"), ("one", "One")]


class QueueForm(forms.Form):
    """A new queue. `pairing` and `overlap` also read a form that is not complete: the preview shows what stands there."""

    name = forms.CharField(max_length=200, help_text="Annotators see it: it should not name policies.")
    pairs = forms.ChoiceField(label="Pairs of each task", choices=PAIRS, initial="all", widget=forms.RadioSelect)
    per_task = forms.IntegerField(label="How many a task", min_value=1, max_value=10_000, initial=3, required=False)
    different_outcomes = forms.BooleanField(
        label="Only runs that ended differently",
        required=False,
        help_text="One succeeded and one failed, or their rewards differ.",
    )
    different_policies = forms.BooleanField(label="Only runs of different policies", required=False)
    overlap = forms.IntegerField(
        label="Judgements of each pair",
        min_value=1,
        max_value=50,
        initial=1,
        help_text="By so many different people; two or more show how far they agree.",
    )
    order = forms.ChoiceField(
        choices=[("fifo", "Task by task"), ("random", "Shuffled")],
        initial="fifo",
        widget=forms.RadioSelect,
        help_text="Shuffled keeps people from judging one task many times in a row.",
    )
    seed = forms.IntegerField(
        min_value=0, max_value=2**31 - 1, initial=0, help_text="The same seed draws and shuffles the same way."
    )
    lease_minutes = forms.IntegerField(
        label="Time to judge a pair",
        min_value=1,
        max_value=7 * 24 * 60,
        initial=20,
        help_text="Minutes. Who goes away for longer gives the pair to others; whoever is at work keeps it.",
    )
    skipped_come_back = forms.BooleanField(
        label="Skipped pairs come back to who skipped them, at the end", required=False
    )
    guidelines = forms.CharField(
        required=False,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text="Markdown. Say what “better” means here, with an example of a close call. Each change is a new version.",
    )

    def _standing(self, name: str) -> Any:
        """A field's value where it is valid, else what it starts with."""
        return (
            self.cleaned_data.get(name)
            if self.is_bound and name in getattr(self, "cleaned_data", {})
            else self.fields[name].initial
        )

    def pairing(self) -> Pairing:
        wanted = self._standing("pairs")
        return Pairing(
            per_task={"all": None, "one": 1}.get(wanted, self._standing("per_task") or 1),
            different_outcomes=bool(self._standing("different_outcomes")),
            different_policies=bool(self._standing("different_policies")),
            seed=self._standing("seed") or 0,
        )

    def overlap_of(self) -> int:
        return self._standing("overlap") or 1

    def settings(self) -> dict[str, Any]:
        """The keywords of `create_queue` that are neither selection nor pairing."""
        names = ("name", "overlap", "order", "skipped_come_back", "guidelines")
        return {name: self.cleaned_data[name] for name in names} | {
            "lease_seconds": self.cleaned_data["lease_minutes"] * 60
        }


class GuidelinesForm(forms.Form):
    text = forms.CharField(
        label="Guidelines",
        max_length=100_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 20}),
        help_text="Markdown.",
    )
