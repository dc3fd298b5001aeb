"""Everything needed to make a version's rows: its recipe, the names of policies and annotators, the splits, and the statistics."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from apps.annotation.models import Annotator
from apps.datasets.figures import Agreement, Figures
from apps.datasets.files.splitfiles import SplitFiles
from apps.datasets.models import Split, Version
from apps.datasets.recipe import Recipe
from apps.datasets.rows import ROW_TYPES
from apps.datasets.rows.chat_encoding import Turn, encode_tools, read_turns
from apps.datasets.selection.pairs import annotators_of
from apps.policies.models import Policy
from contract import jsontext

TOOLS_KEPT = 32

Files = dict[Split, SplitFiles]


class Source(NamedTuple):
    """A judgment, of one of three kinds, that went into a row."""

    task: UUID
    split: str
    row: int
    preference: str | None = None
    inspection: UUID | None = None
    rating: UUID | None = None


class Materials:
    """State shared by all row writers of one version."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.recipe = Recipe.from_json(version.recipe)
        self.row_type = ROW_TYPES[self.recipe.row_type]
        annotators = annotators_of(self.recipe, version.workspace)
        machines = {key for key, annotator in annotators.items() if annotator.kind in Annotator.MACHINES}
        self.figures = Figures(agreement=Agreement(machines))
        self.keep_surrogates = self.recipe.surrogates == "keep"
        self.labels = {key: annotator.label for key, annotator in annotators.items()}
        self.policies = dict(Policy.objects.filter(workspace=version.workspace).values_list("pk", "name"))
        self.splits: dict[UUID, Split] = {}
        self._tools: dict[tuple[bytes, ...], bytes] = {}

    def name_of(self, policy: UUID | None) -> str:
        """The policy's name; empty if unknown, since a null column's Arrow type would depend on the data."""
        return self.policies.get(policy, "") if policy else ""

    def turns(self, steps: bytes) -> list[Turn]:
        return read_turns(steps, keep_surrogates=self.keep_surrogates)

    def tools_text(self, *tools_of_each: bytes) -> bytes:
        """The tools offered in the trajectories, without duplicates. Cached, since trajectories of one environment share their tools."""
        text = self._tools.get(tools_of_each)
        if text is None:
            if len(self._tools) >= TOOLS_KEPT:
                self._tools.clear()
            first, *rest = map(jsontext.loads, tools_of_each)
            text = encode_tools(first, [tool for other in rest for tool in other])
            self._tools[tools_of_each] = text
        return text
