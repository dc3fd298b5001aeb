"""What every kind of judgment says of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar
from uuid import UUID

from django import forms
from django.db.models import Q, QuerySet
from rest_framework import serializers

from apps.annotation.kinds.forms import AsksForm, JudgementForm
from apps.annotation.kinds.meanings import Info, Meanings, Survey
from apps.annotation.kinds.measures import Gathered
from apps.annotation.kinds.pair_selection import Pairing, Preview, Run
from apps.annotation.kinds.questions import Alternatives, Asks
from apps.annotation.models import Adjudication, Assignment, Item, Judgement, Queue
from apps.annotation.models.judgements import JudgementQuerySet
from apps.annotation.refusals import Refusal
from apps.trajectories.models import Trajectory

K = TypeVar("K", bound=Asks)
A = TypeVar("A")
J = TypeVar("J", bound=Judgement)

MOST_REMARKS = 200

PartUrl = Callable[[str, int], str]
"""The address of the parts of a step, by side and index."""
Known = int | str
"""The known answer of a gold or onboarding item, as `Item.known` keeps it."""


OF_A_JUDGEMENT = ("annotator", "annotator_kind", "annotator_source")


class JudgementSerializer(serializers.ModelSerializer[J]):
    """What the judgments of every kind tell over REST."""

    task = serializers.CharField(source="item.task.key")
    annotator = serializers.CharField(source="annotator.name")
    annotator_kind = serializers.CharField(source="annotator.kind")
    annotator_source = serializers.CharField(
        source="annotator.source", help_text="The file that it came in with; empty: judged here."
    )


class Place(NamedTuple, Generic[A]):
    """An answer, and the assignment that it closes."""

    assignment: Assignment
    answer: A
    seconds: float = 0.0
    guideline_version: int = 0
    is_imported: bool = False

    def columns(self) -> dict[str, Any]:
        """Those that all judgments share."""
        held = self.assignment
        return {
            **{name: getattr(held, name) for name in ("workspace_id", "queue", "item_id", "annotator_id")},
            "assignment": held,
            "seconds": self.seconds,
            "guideline_version": self.guideline_version,
        }


@dataclass(frozen=True, order=True)
class StepRemark:
    """One thing said of one step."""

    index: int
    words: str
    tone: str
    """good, bad, attention or plain."""
    note: str
    annotator: str

    @property
    def number(self) -> int:
        return self.index + 1


class Kind(ABC, Generic[K, A, J]):
    """One kind of judgment: asked as `K`, answered as `A`, stored as `J`.

    What a method takes as `said` is an answer or a stored judgment: the columns that it reads are called alike in both.
    """

    name: ClassVar[Queue.Kind]
    noun: ClassVar[str]
    """What an item is: a pair, a trajectory."""
    has_sides: ClassVar[bool] = False
    """Whether two trajectories stand side by side, so that a habit of one side can show."""
    run_names: ClassVar[tuple[str, ...]] = ("Run",)
    """What the trajectories of an item are called where it is told who made them."""
    model: type[J]
    asks: type[K]
    answer: type[A]
    serializer: type[serializers.ModelSerializer[J]]
    """Of a judgment over REST."""
    nested: ClassVar[tuple[str, ...]] = ()
    """Relations that the serializer reads."""

    def asked(self, queue: Queue) -> K:
        return self.asks.from_json(queue.asks)

    @property
    def standing(self) -> JudgementQuerySet[J]:
        """The judgments of this kind that nobody took back."""
        objects: JudgementQuerySet[J] = self.model.objects.standing()  # type: ignore[attr-defined]  # each model has one
        return objects

    # On the desk ------------------------------------------------------------------------------------------------------

    template: ClassVar[str]
    """An item with its answer bar."""
    rows_template: ClassVar[str]
    labels_steps: ClassVar[bool] = False
    """Whether each step has a place for its label."""
    dialogs: ClassVar[str] = ""
    """The template of what opens over the desk for this kind only."""
    folds_questions: ClassVar[bool] = True
    """Whether its questions stand beside the main thing, and fold."""
    cannot_tell: ClassVar[str]
    """A reason to skip an item."""
    form: type[JudgementForm]
    draft_form: type[JudgementForm]

    @abstractmethod
    def runs_shown(self, assignment: Assignment, part_url: PartUrl) -> dict[str, Any]:
        """The blind view of an item's trajectories, for the template."""

    @abstractmethod
    def rows_shown(self, assignment: Assignment, part_url: PartUrl, start: int) -> dict[str, Any]:
        """A few rows of it, opened."""

    @abstractmethod
    def run_at(self, assignment: Assignment, side: str) -> Trajectory | None:
        """The run that an address names by its side."""

    @abstractmethod
    def answer_bar(self, assignment: Assignment) -> dict[str, Any]:
        """What the answer bar asks, filled in with the draft."""

    def takes_corrections(self, asks: K) -> bool:
        """Whether better actions may be written."""
        return False

    def alternatives(self, asks: K) -> Alternatives | None:
        """Where better actions are sampled, if they are."""
        return None

    # Storing ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def check(self, answer: A, asks: K, item: Item) -> None:
        """Refuse an answer that the queue did not ask for, or that leaves something open. Raises Refusal."""

    @abstractmethod
    def store(self, places: Sequence[Place[A]]) -> list[J]:
        """Store an answer for each place, unchecked."""

    @abstractmethod
    def answer_of(self, judgement: J) -> A:
        """What a stored judgment answers."""

    @abstractmethod
    def draft_of(self, judgement: J) -> dict[str, Any]:
        """A judgment as the desk's form would have sent it, for somebody who takes it back."""

    # What a judgment means --------------------------------------------------------------------------------------------

    @abstractmethod
    def stance(self, said: A | J) -> Any:
        """What contradicts another judgment of the item, unless it is equal; None where it says nothing firm."""

    @abstractmethod
    def known(self, judgement: J) -> Known | None:
        """What it says, in the terms of known answers; None where it says nothing of the kind."""

    @abstractmethod
    def gather(self, queue: Queue) -> Gathered:
        """What the standing judgments of a queue say, measure by measure."""

    def chose_left(self, judgement: J) -> bool | None:
        """None where no side was chosen, or nothing says which side it was."""
        return None

    # In words ---------------------------------------------------------------------------------------------------------

    @abstractmethod
    def words(self, said: A | J) -> str:
        """A judgment in a few words."""

    def words_on(self, judgement: J, run: UUID) -> str:
        """What it says of one trajectory."""
        return self.words(judgement)

    def words_by_side(self, said: A | J, *, a_is_left: bool) -> str:
        """For somebody who sees sides and no names."""
        return self.words(said)

    def words_as_given(self, judgement: J) -> str:
        """For whoever gave it."""
        return self.words(judgement)

    @abstractmethod
    def known_words(self, known: Known, *, a_is_left: bool | None = None) -> str:
        """A known answer, by side where one is given."""

    def remarks(self, judgements: Mapping[UUID, J]) -> Iterator[StepRemark]:
        """What judgments, by their ids, say of single steps; in as many queries whatever their number."""
        yield from ()

    # Known answers ----------------------------------------------------------------------------------------------------

    outcome_tells: ClassVar[Q | None] = None
    """The items whose trajectories tell by their outcome what the answer is; None where none can."""
    outcome_words: ClassVar[str] = ""
    """How they tell it."""

    @abstractmethod
    def known_field(self) -> forms.Field:
        """Asks a researcher for the known answer of an item."""

    def read_known(self, given: str) -> Known:
        """What the field was given. Raises ValidationError."""
        return int(given)

    def known_as_given(self, known: Known) -> str:
        """The other way round."""
        return str(known)

    def check_known(self, known: Known, run: Trajectory) -> None:
        """Refuse a known answer that nobody could give. Raises Refusal."""

    # Review -----------------------------------------------------------------------------------------------------------

    @property
    def reviewers_answer(self) -> bool:
        """Whether a reviewer answers anew, and so can be blind to what others said; otherwise they say whose judgment stands."""
        return self.model.reviewers_answer

    question_of_review: ClassVar[str]

    @abstractmethod
    def review_choices(self, judgements: Sequence[J]) -> list[tuple[str, str]]:
        """What a reviewer may choose, in words."""

    @abstractmethod
    def decision(self, given: str, *, a_is_left: bool) -> dict[str, Any]:
        """The columns of the adjudication that a choice means."""

    @abstractmethod
    def chosen(self, decision: Adjudication, *, a_is_left: bool) -> str:
        """The other way round."""

    @abstractmethod
    def decided_words(self, decision: Adjudication, judgements: Sequence[J], *, a_is_left: bool | None) -> str:
        """A decision in words, by side where one is given."""

    @abstractmethod
    def agrees(self, decision: Adjudication, judgement: J) -> bool:
        """Whether a judgment says what was decided."""

    @abstractmethod
    def decided_for(self, judgement: J, decision: Adjudication) -> str:
        """A decision in words for who gave this judgment."""

    @abstractmethod
    def decision_problem(self, decision: Mapping[str, Any]) -> tuple[str, str] | None:
        """Why an adjudication can't have these columns: the column, and what is expected."""

    # Making queues ----------------------------------------------------------------------------------------------------

    takes_models: ClassVar[bool] = False
    """Whether models can be sent to judge."""
    asks_form: type[AsksForm]
    nothing_to_do: ClassVar[type[Refusal]]
    """Why a queue would have no items."""

    @abstractmethod
    def asks_of(self, data: Mapping[str, Any]) -> K:
        """What the form of a new queue asks for."""

    def asks_problem(self, data: Mapping[str, Any]) -> tuple[str, str] | None:
        """A field of that form, and what is missing there."""
        return None

    @abstractmethod
    def preview(self, pairing: Pairing, runs: QuerySet[Trajectory]) -> Preview:
        """How many items these trajectories give, counted by the database."""

    @abstractmethod
    def draw(self, pairing: Pairing, task: UUID, runs: list[Run]) -> Iterator[Item]:
        """The items of one task, each at the place where shuffling puts it."""

    @abstractmethod
    def pairing_words(self, pairing: Pairing) -> str:
        """How the items were drawn."""

    # Imported judgments -----------------------------------------------------------------------------------------

    imported_as: ClassVar[str]
    """What a file says whose judgments are of this kind."""
    imported_asks: K
    imported_values: ClassVar[tuple[str, ...]]
    """What a value in a file may mean."""

    @abstractmethod
    def is_said_in(self, survey: Survey) -> bool:
        """Whether a file may hold such judgments."""

    @abstractmethod
    def imported_words(self, sides: tuple[str, str] | None) -> Sequence[str]:
        """The same in words, for somebody who knows the sides of a pair by the file's own names."""

    @abstractmethod
    def imported(self, meanings: Meanings, info: Info, steps: Sequence[Info]) -> dict[str, A]:
        """What a record says, by annotator; `steps` are what it says of each step."""

    @abstractmethod
    def imported_said(self, answer: A, sides: tuple[str, str] | None) -> str:
        """An answer in the words of the file."""

    def points_at(self, answer: A) -> int | None:
        """The step that shows best what an answer says; None for the last one."""
        return None

    def suggested(self, value: Any, sides: tuple[str, str] | None) -> str:
        """What a value can only mean; empty where a person has to say it."""
        return ""


def known_choice(choices: Sequence[tuple[str, str]], help_text: str = "") -> forms.ChoiceField:
    """A field for a known answer that is one of a few."""
    return forms.ChoiceField(
        label="Right answer", choices=choices, required=False, widget=forms.RadioSelect, help_text=help_text
    )
