"""Forms to manage an open queue: its settings, and the known answers of its items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from django import forms

from apps.accounts.models import User, Workspace
from apps.annotation.forms.layouts import LayoutForm
from apps.annotation.forms.queues import QuestionsField
from apps.annotation.judges.enrollment import DEFAULT_PROMPT, JUDGING
from apps.annotation.kinds import kind_of
from apps.annotation.kinds.kind import KnownAnswer
from apps.annotation.models import Adjudication, Item, Judge, Queue
from apps.annotation.models.queues import MAX_OVERLAP
from apps.annotation.phrases import a_is_left_in_review
from apps.annotation.queues import question_changes
from apps.annotation.queues.overlap import FewerPeople
from apps.annotation.queues.settings import Settings, version_of
from apps.common.names import NameField
from apps.policies.models import Policy
from contract.questions import BadQuestions, Question, read


class SettingsForm(forms.Form):
    """The settings that may change while people work."""

    name = NameField(max_length=200, help_text="Annotators see it, so don't name policies in it.")
    overlap = forms.IntegerField(
        label="People per item",
        max_value=MAX_OVERLAP,
        help_text="How many different people judge each item. It can grow, but not shrink.",
    )
    who = forms.ChoiceField(
        label="Who may label",
        choices=[("all", "Everybody in the workspace"), ("named", "Only these")],
        widget=forms.RadioSelect,
    )
    labelers: forms.ModelMultipleChoiceField[User] = forms.ModelMultipleChoiceField(
        label="Named people", queryset=User.objects.none(), required=False, widget=forms.CheckboxSelectMultiple
    )
    gold_percent = forms.IntegerField(
        label="Share of gold items",
        min_value=0,
        max_value=90,
        help_text="Percent of the items that each person gets, as long as there are gold items that they haven't seen.",
    )
    ends_at = forms.DateTimeField(
        label="End on",
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        help_text="In UTC. Empty: no date.",
    )
    ends_after = forms.IntegerField(
        label="End after",
        required=False,
        min_value=1,
        max_value=10**9,
        help_text="Total number of judgments. Empty: when everything is judged.",
    )
    lease_minutes = forms.IntegerField(
        label="Time limit per item", min_value=1, max_value=7 * 24 * 60, help_text="Minutes."
    )
    skipped_come_back = forms.BooleanField(
        label="Skipped items come back to the same person, at the end", required=False
    )

    shows_machines = forms.BooleanField(
        label="Show what models said",
        required=False,
        help_text="On the desk, before people answer. Otherwise they see it on their own page afterward.",
    )
    blind_review = forms.BooleanField(
        label="Blind review", required=False, help_text="Reviewers decide before they see the judgments."
    )

    questions = QuestionsField(
        label="Questions",
        help_text="A JSON list. A question that has answers keeps its text, type, points and options; whether it's required, when it's asked and its place "
        "can change, and options can be added. Earlier judgments have no answers to what is added.",
    )
    questions_seen = forms.CharField(required=False, max_length=16, widget=forms.HiddenInput)
    seen = forms.CharField(required=False, max_length=16, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, queue: Queue) -> None:
        labeler_ids = [user.pk for user in queue.labelers.all()]
        asks = kind_of(queue).asked(queue)
        initial = {
            "name": queue.name,
            "overlap": queue.overlap,
            "who": "named" if queue.is_restricted else "all",
            "labelers": labeler_ids,
            "gold_percent": queue.gold_percent,
            "blind_review": queue.blind_review,
            "shows_machines": queue.shows_machines,
            "ends_at": queue.ends_at,
            "ends_after": queue.ends_after,
            "lease_minutes": max(1, queue.lease_seconds // 60),
            "skipped_come_back": queue.skipped_come_back,
            "questions": asks.questions,
            "questions_seen": question_changes.version_of(asks),
            "seen": version_of(queue),
        }
        super().__init__(data, initial=initial)
        self.queue = queue
        self.layout = LayoutForm(data, queue=queue, prefix="layout")
        self.fields["overlap"].widget.attrs["min"] = queue.overlap
        if queue.is_of_experiment:
            self.fields["overlap"].disabled = True
            self.fields["gold_percent"].disabled = True  # hidden, too: there are no gold items
            self.fields["overlap"].help_text = "The experiment's plan fixed it before the first answer."
        if not kind_of(queue).takes_models:
            del self.fields["shows_machines"]
        members = User.objects.filter(memberships__workspace=queue.workspace_id).order_by("name", "email")
        cast("forms.ModelMultipleChoiceField[User]", self.fields["labelers"]).queryset = members

    def clean_questions(self) -> tuple[Question, ...] | None:
        questions = self.cleaned_data["questions"]
        try:
            return None if questions is None else read(questions, kind_of(self.queue).asks.allowed)
        except BadQuestions as problem:
            raise forms.ValidationError(str(problem)) from None

    def _as_asked(self, data: dict[str, Any]) -> dict[str, Any]:
        return {**vars(kind_of(self.queue).asked(self.queue)), "questions": data["questions"]}

    def clean_overlap(self) -> int:
        overlap: int = self.cleaned_data["overlap"]
        if overlap < self.queue.overlap:
            raise forms.ValidationError(str(FewerPeople(overlap, self.queue.overlap)))
        return overlap

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("questions") is not None and (missing := kind_of(self.queue).asks_problem(self._as_asked(data))):
            self.add_error(*missing)
        if not self.layout.is_valid():
            self.add_error(None, "The desk layout has an unknown setting. Reload the page.")
        if data.get("who") == "named" and not data.get("labelers"):
            self.add_error("labelers", "Choose at least one person, or let everybody label.")
        return data

    def settings(self) -> Settings:
        data = self.cleaned_data
        return Settings(
            name=data["name"],
            overlap=data["overlap"],
            lease_seconds=data["lease_minutes"] * 60,
            skipped_come_back=data["skipped_come_back"],
            gold_percent=data["gold_percent"],
            blind_review=data["blind_review"],
            shows_machines=data.get("shows_machines", False),
            ends_at=data["ends_at"],
            ends_after=data["ends_after"],
            questions=data["questions"],
            questions_seen=data["questions_seen"],
            seen=data["seen"],
            layout={**self.queue.layout, **self.layout.settings()},
            labelers=[user.pk for user in data["labelers"]] if data["who"] == "named" else None,
        )


class DrawGoldForm(forms.Form):
    count = forms.IntegerField(label="How many", min_value=1, max_value=1000, initial=20)


class KnownForm(forms.Form):
    """An item's purpose and its known answer."""

    purpose = forms.ChoiceField(
        choices=[
            ("gold", "Gold: a hidden check"),
            ("training", "Onboarding: newcomers see it first"),
            ("work", "Ordinary"),
        ],
        widget=forms.RadioSelect,
        initial="gold",
    )
    because = forms.CharField(
        label="Why",
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Shown to people who answer an onboarding item.",
    )

    def __init__(self, *args: Any, queue: Queue, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind_of(queue)
        self.fields["answer_given"] = self.kind.known_answer_field()

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        answer = str(data.get("answer_given", "")).strip()
        if data.get("purpose") == Item.Purpose.WORK or "answer_given" in self.errors:
            return data
        try:
            data["known"] = self.kind.parse_known_answer(answer) if answer else None
        except forms.ValidationError as problem:
            self.add_error("answer_given", problem)
        else:
            if data["known"] is None:
                self.add_error("answer_given", "Give the right answer.")
        return data

    def answer(self) -> KnownAnswer:
        """The answer in the format of `Item.known`."""
        known: KnownAnswer = self.cleaned_data["known"]
        return known


class DecisionForm(forms.Form):
    """A reviewer's decision: a grade by displayed side for a pair, otherwise the upheld judgment."""

    answer = forms.ChoiceField(error_messages={"required": "Choose first."}, widget=forms.RadioSelect)
    reason = forms.CharField(
        label="Why?",
        max_length=5000,
        widget=forms.Textarea(
            attrs={"rows": 4, "data-key": "r", "data-key-group": "Decision", "data-key-label": "Say why"}
        ),
        help_text="Required. The annotators read it, without your name.",
        error_messages={"required": "Give a reason: the people who judged it read it and learn from it."},
    )

    def __init__(
        self, data: Any = None, *, item: Item, judgments: Sequence[Any], decision: Adjudication | None = None
    ) -> None:
        super().__init__(data)
        self.item = item
        if decision is not None:
            self.initial = {"answer": kind_of(item).chosen(decision, a_is_left=a_is_left_in_review(item))}
        choices = kind_of(item).review_choices(judgments)
        cast("forms.ChoiceField", self.fields["answer"]).choices = choices

    def decision(self) -> dict[str, Any]:
        """The keyword arguments of `adjudicate`."""
        a_is_left = a_is_left_in_review(self.item)
        answer = kind_of(self.item).decision(self.cleaned_data["answer"], a_is_left=a_is_left)
        return {**answer, "reason": self.cleaned_data["reason"]}


class ReasonForm(forms.Form):
    reason = forms.CharField(required=False, max_length=300)


class RemarkForm(forms.Form):
    text = forms.CharField(max_length=5000, error_messages={"required": "Write something first."})


class JudgeForm(forms.Form):
    """A served model that will judge a queue."""

    policy: forms.ModelChoiceField[Policy] = forms.ModelChoiceField(
        label="Model",
        queryset=Policy.objects.none(),
        empty_label=None,
        help_text="A served model or a reward model from Policies. A reward model needs no prompt and no prices.",
    )
    mode = forms.ChoiceField(
        label="Mode", choices=Judge.Mode.choices, initial=Judge.Mode.PRELABEL, widget=forms.RadioSelect
    )
    prompt = forms.CharField(
        label="What to look for",
        max_length=20_000,
        initial=DEFAULT_PROMPT,
        widget=forms.Textarea(attrs={"rows": 5}),
        help_text="Instructions on comparing two trajectories and on the answer's form are added. Each change is a new version.",
    )
    requests_a_minute = forms.IntegerField(
        min_value=1, max_value=100_000, initial=60, help_text="Two per pair, since both orders are asked."
    )
    prompt_price = forms.FloatField(label="Price per million prompt tokens", min_value=0, initial=0)
    completion_price = forms.FloatField(label="Price per million completion tokens", min_value=0, initial=0)
    most_cost = forms.FloatField(label="Budget", min_value=0, required=False)

    def __init__(self, data: Any = None, *, workspace: Workspace) -> None:
        super().__init__(data)
        served = Policy.objects.filter(workspace=workspace, kind__in=JUDGING, archived_at=None).order_by("name")
        cast("forms.ModelChoiceField[Policy]", self.fields["policy"]).queryset = served

    @property
    def has_models(self) -> bool:
        return bool(cast("forms.ModelChoiceField[Policy]", self.fields["policy"]).queryset)

    def settings(self) -> dict[str, Any]:
        """The keyword arguments of `send_judge`."""
        return dict(self.cleaned_data)


class BudgetForm(forms.Form):
    most_cost = JudgeForm.base_fields["most_cost"]


class PromptForm(forms.Form):
    prompt = forms.CharField(max_length=20_000)
