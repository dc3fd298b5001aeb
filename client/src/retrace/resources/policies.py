"""Policies and their publications."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.core.request import Request, address
from retrace.models.policies import Champion, Endpoint, NewPolicy, Policy, Publication, Publish, RollBackChampion


class Policies(Resource[C]):
    @listing
    def list(self, *, archived: bool | None = None, page_size: int | None = None) -> Listing[Policy]:
        """Policies, newest first; with `archived`, the archived ones instead."""
        return Listing("/policies", Policy, {"archived": archived, "page_size": page_size})

    @operation
    def register(self, **policy: Unpack[NewPolicy]) -> Flow[Policy]:
        """Register a model, a script, or a served model."""
        return self._create("/policies", answer=Policy, body=policy)

    @operation
    def read(self, policy_id: str) -> Flow[Policy]:
        """Read a policy."""
        return self._read("/policies/{}", policy_id, answer=Policy)

    @operation
    def archive(self, policy_id: str) -> Flow[Policy]:
        """Archive a policy: it leaves lists and choices, and everything that depends on it stays."""
        return self._act("/policies/{}/archive", policy_id, answer=Policy)

    @operation
    def restore(self, policy_id: str) -> Flow[Policy]:
        """Restore an archived policy."""
        return self._act("/policies/{}/restore", policy_id, answer=Policy)

    @operation
    def card(self, policy_id: str) -> Flow[str]:
        """Read a policy's card, as a README in Markdown."""
        path = address("/policies/{}/card", policy_id)
        return self._text(Request("GET", path, headers={"Accept": "text/markdown"}))


class Endpoints(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Endpoint]:
        """The servers of policies, newest first."""
        return Listing("/endpoints", Endpoint, {"page_size": page_size})


class Champions(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Champion]:
        """The champion of each environment, the latest first."""
        return Listing("/champions", Champion, {"page_size": page_size})

    @operation
    def roll_back(self, **roll_back: Unpack[RollBackChampion]) -> Flow[Champion]:
        """Reinstate the champion before the current one."""
        return self._create("/champions/roll-back", answer=Champion, body=roll_back)


class Publications(Resource[C]):
    @listing
    def list(self, policy_id: str, *, page_size: int | None = None) -> Listing[Publication]:
        """A policy's publications, newest first."""
        return Listing(address("/policies/{}/publications", policy_id), Publication, {"page_size": page_size})

    @operation
    def create(self, policy_id: str, **publication: Unpack[Publish]) -> Flow[Publication]:
        """Publish a policy. Returns at once; `client.wait` waits until it's live."""
        return self._create("/policies/{}/publications", policy_id, answer=Publication, body=publication)

    @operation
    def read(self, publication_id: str) -> Flow[Publication]:
        """Read a publication."""
        return self._read("/publications/{}", publication_id, answer=Publication)

    @operation
    def roll_back(self, publication_id: str) -> Flow[Publication]:
        """Publish the previous policy of this name again."""
        return self._act("/publications/{}/roll-back", publication_id, answer=Publication)
