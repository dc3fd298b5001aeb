"""Migrates the names in stored recipes and cards to their American spelling, and back."""

from importlib import import_module

import pytest
from django.db import IntegrityError, connection

from tests import factories

migration = import_module("apps.datasets.migrations.0008_american_spelling")


@pytest.mark.django_db(transaction=True)  # deferred checks of the inserted row would prevent changes of its table
def test_names_are_changed_in_frozen_versions_and_values_stay() -> None:
    queues = [{"name": 'Says "judgements": 1'}]
    recipe = {"queues": [], "judgements": "each"}
    card = {"licence": "CC0", "judgements": 3, "queues": queues, "annotators": [{"judgements": 3, "kind": "person"}]}
    version = factories.dataset_version(recipe=recipe, card=card)
    with connection.cursor() as cursor:
        cursor.execute(migration.rename_keys(migration.BRITISH, migration.AMERICAN))
    version.refresh_from_db()
    assert version.recipe == {"queues": [], "judgments": "each"}
    assert version.card == {
        "license": "CC0",
        "judgments": 3,
        "queues": queues,
        "annotators": [{"judgments": 3, "kind": "person"}],
    }
    with connection.cursor() as cursor:
        cursor.execute(migration.rename_keys(migration.AMERICAN, migration.BRITISH))
    version.refresh_from_db()
    assert (version.recipe, version.card) == (recipe, card)
    version.card = {}
    with pytest.raises(IntegrityError, match="is frozen"):  # the trigger is back
        version.save()
