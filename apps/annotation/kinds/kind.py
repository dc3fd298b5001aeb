"""The interface that every kind of judgment implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar
from uuid import UUID

from django import forms
from django.db.models import Q, QuerySet
from rest_framework import serializers

from apps.annotation.kinds.forms import AsksForm, JudgmentForm
from apps.annotation.kinds.meanings import Info, Meanings, Survey
from apps.annotation.kinds.measures import Gathered
from apps.annotation.kinds.pair_selection import Candidate, Pairing, Preview
from apps.annotation.kinds.questions import Alternatives, Asks
from apps.annotation.models import Adjudication, Assignment, Item, Judgment, Queue
from apps.annotation.models.judgments import JudgmentQuerySet
from apps.annotation.refusals import Refusal
from apps.trajectories.models import Trajectory

K = TypeVar("K", bound=Asks)
A = TypeVar("A")
J = TypeVar("J", bound=Judgment)

MAX_REMARKS = 200

PartUrl = Callable[[str, int], str]
"""The URL of a step's parts, by side and index."""
KnownAnswer = int | str
"""The known answer of a gold or onboarding item, as stored in `Item.known`."""


OF_A_JUDGMENT = ("annotator", "annotator_kind", "annotator_source")


class JudgmentSerializer(serializers.ModelSerializer[J]):
    """REST fields common to judgments of every kind."""

    task = serializers.CharField(source="item.task.key")
    annotator = serializers.CharField(source="annotator.name")
    annotator_kind = serializers.CharField(source="annotator.kind")
    annotator_source = serializers.CharField(
        source="annotator.source", help_text="The imported file that it comes from; empty: judged here."
    )


class Submission(NamedTuple, Generic[A]):
    """An answer, and the assignment that it closes."""

    assignment: Assignment
    answer: A
    seconds: float = 0.0
    guideline_version: int = 0
    has_sides: bool = True
    """Whether its author saw a pair's trajectories on the sides that the assignment names."""

    def columns(self) -> dict[str, Any]:
        """The columns common to all judgments."""
        assignment = self.assignment
        return {
            **{name: getattr(assignment, name) for name in ("workspace_id", "queue", "item_id", "annotator_id")},
            "assignment": assignment,
            "seconds": self.seconds,
            "guideline_version": self.guideline_version,
        }


@dataclass(frozen=True, order=True)
class StepRemark:
    """One judgment about one step."""

    index: int
    text: str
    tone: str
    """good, bad, attention, or plain."""
    note: str
    annotator: str

    @property
    def number(self) -> int:
        return self.index + 1


class Kind(ABC, Generic[K, A, J]):
    """One kind of judgment: asked as `K`, answered as `A`, stored as `J`.

    The `judgment` argument of methods is an answer or a stored judgment; the attributes they read have the same names in both.
    """

    name: ClassVar[Queue.Kind]
    noun: ClassVar[str]
    """What an item is: pair or trajectory."""
    plural: ClassVar[str]
    """The plural of `noun`."""
    has_sides: ClassVar[bool] = False
    """Whether two trajectories are shown side by side, so that position bias is possible."""
    trajectory_names: ClassVar[tuple[str, ...]] = ("Trajectory",)
    """Labels of an item's trajectories where their policies are shown."""
    model: type[J]
    asks: type[K]
    answer: type[A]
    serializer: type[serializers.ModelSerializer[J]]
    """Serializes a judgment for REST."""
    nested: ClassVar[tuple[str, ...]] = ()
    """Relations that the serializer reads."""

    def asked(self, queue: Queue) -> K:
        return self.asks.from_json(queue.asks)

    @property
    def valid_judgments(self) -> JudgmentQuerySet[J]:
        """The judgments of this kind that weren't withdrawn."""
        objects: JudgmentQuerySet[J] = self.model.objects.valid()  # type: ignore[attr-defined]  # each model has one
        return objects

    template: ClassVar[str]
    """Template of an item with its answer bar."""
    rows_template: ClassVar[str]
    labels_steps: ClassVar[bool] = False
    """Whether each step has a place for its label."""
    dialogs: ClassVar[str] = ""
    """Template of dialogs that only this kind has."""
    folds_questions: ClassVar[bool] = True
    """Whether its questions are shown beside the main one and can be collapsed."""
    cannot_tell: ClassVar[str]
    """A suggested reason to skip an item."""
    form: type[JudgmentForm]
    draft_form: type[JudgmentForm]

    @abstractmethod
    def trajectory_context(self, assignment: Assignment, part_url: PartUrl) -> dict[str, Any]:
        """Template context for the blind view of an item's trajectories."""

    @abstractmethod
    def rows_shown(self, assignment: Assignment, part_url: PartUrl, start: int) -> dict[str, Any]:
        """A few opened rows of that view."""

    @abstractmethod
    def trajectory_at(self, assignment: Assignment, side: str) -> Trajectory | None:
        """The trajectory at a side, as named in URLs."""

    @abstractmethod
    def answer_bar(self, assignment: Assignment) -> dict[str, Any]:
        """Template context for the answer bar, filled in with the draft."""

    def takes_corrections(self, asks: K) -> bool:
        """Whether corrections may be written."""
        return False

    def alternatives(self, asks: K) -> Alternatives | None:
        """Where corrections are sampled from, if they are."""
        return None

    @abstractmethod
    def check(self, answer: A, asks: K, item: Item) -> None:
        """Refuse an answer that the queue didn't ask for, or that is incomplete. Raises Refusal."""

    @abstractmethod
    def store(self, submissions: Sequence[Submission[A]]) -> list[J]:
        """Store the submissions, without validation."""

    @abstractmethod
    def answer_of(self, judgment: J) -> A:
        """The answer in a stored judgment."""

    @abstractmethod
    def draft_of(self, judgment: J) -> dict[str, Any]:
        """A judgment as the desk's form would have sent it, for somebody who undoes it."""

    @abstractmethod
    def stance(self, judgment: A | J) -> Any:
        """The position that judgments of an item are compared by: two that aren't equal contradict each other. None if it takes no position."""

    @abstractmethod
    def as_known_answer(self, judgment: J) -> KnownAnswer | None:
        """The judgment in the format of known answers; None if it has no equivalent."""

    @abstractmethod
    def gather(self, queue: Queue) -> Gathered:
        """The values of a queue's valid judgments, by measure."""

    def chose_left(self, judgment: J) -> bool | None:
        """None if no side was chosen, or the sides weren't recorded."""
        return None

    @abstractmethod
    def judgment_text(self, judgment: A | J) -> str:
        """A judgment as short text."""

    def judgment_text_on(self, judgment: J, trajectory: UUID) -> str:
        """What it says about one trajectory."""
        return self.judgment_text(judgment)

    def judgment_text_by_side(self, judgment: A | J, *, a_is_left: bool) -> str:
        """The same by displayed side, for somebody who may not know the names."""
        return self.judgment_text(judgment)

    def rationale_by_side(self, judgment: J, *, a_is_left: bool) -> str:
        """What was written in the judgment, for somebody who sees these sides."""
        return judgment.rationale

    def judgment_text_for_author(self, judgment: J) -> str:
        """The text for its author."""
        return self.judgment_text(judgment)

    @abstractmethod
    def known_answer_text(self, known: KnownAnswer, *, a_is_left: bool | None = None) -> str:
        """A known answer as text, by displayed side if `a_is_left` is given."""

    def remarks(self, judgments: Mapping[UUID, J]) -> Iterator[StepRemark]:
        """Statements about single steps in judgments keyed by id; the number of queries is constant."""
        yield from ()

    outcome_decides: ClassVar[Q | None] = None
    """The items whose known answer follows from their trajectories' outcomes; None if it never does."""
    outcome_rule: ClassVar[str] = ""
    """How the outcome determines the answer, as text."""

    @abstractmethod
    def known_answer_field(self) -> forms.Field:
        """The form field for an item's known answer."""

    def parse_known_answer(self, value: str) -> KnownAnswer:
        """Parse that field's value. Raises ValidationError."""
        return int(value)

    def known_answer_field_value(self, known: KnownAnswer) -> str:
        """The reverse: the field's value for a known answer."""
        return str(known)

    def check_known_answer(self, known: KnownAnswer, trajectory: Trajectory) -> None:
        """Refuse a known answer that no annotator could give. Raises Refusal."""

    @property
    def reviewers_answer(self) -> bool:
        """Whether a reviewer answers anew, and so can be blind to the judgments; otherwise they choose which judgment to uphold."""
        return self.model.reviewers_answer

    question_of_review: ClassVar[str]

    @abstractmethod
    def review_choices(self, judgments: Sequence[J]) -> list[tuple[str, str]]:
        """A reviewer's options, as text."""

    @abstractmethod
    def decision(self, value: str, *, a_is_left: bool) -> dict[str, Any]:
        """The adjudication's columns for an option."""

    @abstractmethod
    def chosen(self, decision: Adjudication, *, a_is_left: bool) -> str:
        """The reverse: the option for a decision."""

    @abstractmethod
    def decision_text(self, decision: Adjudication, judgments: Sequence[J], *, a_is_left: bool | None) -> str:
        """A decision as text, by displayed side if `a_is_left` is given."""

    @abstractmethod
    def agrees(self, decision: Adjudication, judgment: J) -> bool:
        """Whether a judgment matches the decision."""

    @abstractmethod
    def decision_text_for(self, judgment: J, decision: Adjudication) -> str:
        """A decision as text for the judgment's author."""

    @abstractmethod
    def decision_problem(self, decision: Mapping[str, Any]) -> tuple[str, str] | None:
        """Why an adjudication can't have these columns: the column, and what is expected."""

    takes_models: ClassVar[bool] = False
    """Whether models can be added as judges."""
    asks_form: type[AsksForm]
    nothing_to_do: ClassVar[type[Refusal]]
    """The refusal if a queue would have no items."""

    @abstractmethod
    def asks_of(self, data: Mapping[str, Any]) -> K:
        """What the form of a new queue asks for."""

    def asks_problem(self, data: Mapping[str, Any]) -> tuple[str, str] | None:
        """A field of that form, and what is missing there."""
        return None

    @abstractmethod
    def preview(self, pairing: Pairing, trajectories: QuerySet[Trajectory]) -> Preview:
        """How many items these trajectories yield, counted by the database."""

    @abstractmethod
    def draw(self, pairing: Pairing, task: UUID, candidates: list[Candidate]) -> Iterator[Item]:
        """The items of one task, each with its shuffled position."""

    @abstractmethod
    def pairing_text(self, pairing: Pairing) -> str:
        """How the items were drawn, as text."""

    imported_as: ClassVar[str]
    """Description of a file with judgments of this kind."""
    imported_asks: K
    imported_values: ClassVar[tuple[str, ...]]
    """The possible meanings of a value in a file."""

    @abstractmethod
    def occurs_in(self, survey: Survey) -> bool:
        """Whether a file may contain such judgments."""

    @abstractmethod
    def imported_value_texts(self, sides: tuple[str, str] | None) -> Sequence[str]:
        """These meanings as text, with the file's own names for the sides of a pair."""

    @abstractmethod
    def imported(self, meanings: Meanings, info: Info, steps: Sequence[Info]) -> dict[str, A]:
        """A record's judgments, by annotator; `steps` are the extra columns of each step."""

    @abstractmethod
    def imported_answer_text(self, answer: A, sides: tuple[str, str] | None) -> str:
        """An answer as text, in the file's terms."""

    def points_at(self, answer: A) -> int | None:
        """The step that illustrates an answer best; None for the last one."""
        return None

    def suggested(self, value: Any, sides: tuple[str, str] | None) -> str:
        """The only possible meaning of a value; empty if a person has to choose."""
        return ""


def known_answer_choice(choices: Sequence[tuple[str, str]], help_text: str = "") -> forms.ChoiceField:
    """A field for a known answer with a few options."""
    return forms.ChoiceField(
        label="Right answer", choices=choices, required=False, widget=forms.RadioSelect, help_text=help_text
    )
