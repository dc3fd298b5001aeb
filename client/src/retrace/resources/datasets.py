"""Datasets and their frozen versions."""

from __future__ import annotations

from typing import Any, Literal, Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.core.request import Request, address
from retrace.models.datasets import Dataset, NewDataset, Recipe, Version

Format = Literal["jsonl", "parquet"]
Split = Literal["train", "validation", "test"]


class Datasets(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Dataset]:
        """All datasets, newest first."""
        return Listing("/datasets", Dataset, {"page_size": page_size})

    @operation
    def create(self, **dataset: Unpack[NewDataset]) -> Flow[Dataset]:
        """Create a dataset."""
        return self._create("/datasets", answer=Dataset, body=dataset)

    @operation
    def read(self, dataset_id: str) -> Flow[Dataset]:
        """Read a dataset."""
        return self._read("/datasets/{}", dataset_id, answer=Dataset)


class Versions(Resource[C]):
    """Use `client.export` and `client.load` to get the rows."""

    @listing
    def list(self, dataset_id: str, *, page_size: int | None = None) -> Listing[Version]:
        """The versions of a dataset, newest first."""
        return Listing(address("/datasets/{}/versions", dataset_id), Version, {"page_size": page_size})

    @operation
    def freeze(self, dataset_id: str, **recipe: Unpack[Recipe]) -> Flow[Version]:
        """Freeze the next version. Returns at once; `client.wait` waits until it's frozen."""
        return self._create("/datasets/{}/versions", dataset_id, answer=Version, body=recipe)

    @operation
    def read(self, dataset_id: str, number: int) -> Flow[Version]:
        """Read a version."""
        return self._read("/datasets/{}/versions/{}", dataset_id, number, answer=Version)

    @operation
    def card(self, dataset_id: str, number: int) -> Flow[dict[str, Any]]:
        """Read a version's card."""
        return self._read("/datasets/{}/versions/{}/card", dataset_id, number, answer=dict[str, Any])

    @operation
    def readme(self, dataset_id: str, number: int) -> Flow[str]:
        """Read a version's card as a README in Markdown."""
        path = address("/datasets/{}/versions/{}/card", dataset_id, number)
        return self._text(Request("GET", path, {"format": "markdown"}, headers={"Accept": "text/markdown"}))
