"""How annotators are named outside the workspace: people by pseudonym, machines by what they are."""

import hashlib

from apps.annotation.models import Annotator


def label(annotator: Annotator) -> str:
    """`person:` and a pseudonym that stays the same in every version, or `model:`/`rule:` and the machine's name."""
    if annotator.kind == Annotator.Kind.PERSON:
        # Ids are random enough (74 bits) that a pseudonym cannot be turned back by trying.
        return f"person:{hashlib.sha256(annotator.pk.bytes).hexdigest()[:8]}"
    return f"{annotator.kind}:{annotator.name}"
