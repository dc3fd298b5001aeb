"""Multi-hop questions over a made-up encyclopedia with a real lexical index."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from contract.messages import Message
from contract.trajectory import Task
from trainer.environments.protocol import Score, Split
from trainer.environments.scripts import ScriptFactory
from trainer.environments.search.bm25 import words_in
from trainer.environments.search.corpus import corpus_named
from trainer.environments.search.library import Library
from trainer.environments.search.scripts import SCRIPTS
from trainer.environments.search.tasks import LEVELS, search_tasks
from trainer.environments.tool_environment import ToolEnvironment
from trainer.environments.tools import Toolset
from trainer.failures import DataFailure

SYSTEM = "Answer from the pages of this encyclopedia, never from memory. Call finish with the answer alone."
ARTICLES = {"the", "a", "an"}


class Search(ToolEnvironment):
    """One question. Only an answer given with `finish` counts."""

    name: ClassVar[str] = "search"
    levels: ClassVar[tuple[str, ...]] = LEVELS
    usual_levels: ClassVar[tuple[str, ...]] = LEVELS
    scripts: ClassVar[Mapping[str, ScriptFactory]] = SCRIPTS
    toolset = Toolset(Library)

    @classmethod
    def tasks(cls, *, levels: tuple[str, ...], split: Split, seed: int) -> Iterator[Task]:
        return search_tasks(levels=levels, split=split, seed=seed)

    def begin(self, task: Task) -> list[Message]:
        if "corpus" not in task.initial_state or "answer" not in task.success_check:
            raise DataFailure(
                f"Task {task.key!r} isn't a question to search for.",
                advice="Its initial_state needs corpus; its success_check needs answer, and pages if reading them counts as subgoals.",
            )
        self.wanted: str = task.success_check["answer"]
        self.pages: list[str] = task.success_check.get("pages", [])
        self.world = Library(corpus_named(task.initial_state["corpus"]))
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.instruction}]

    def score(self) -> Score:
        right = self.world.answer is not None and same_answer(self.world.answer, self.wanted)
        subgoals = {f"read {page}": page in self.world.read for page in self.pages} | {"answer": right}
        return Score(reward=float(right), success=right, subgoals=subgoals)

    def over(self) -> bool:
        return self.world.answer is not None


def same_answer(answer: str, expected: str) -> bool:
    """Whether the words are the same, ignoring case, punctuation, and articles (SQuAD's exact match)."""
    first, second = ([word for word in words_in(text) if word not in ARTICLES] for text in (answer, expected))
    return first == second
