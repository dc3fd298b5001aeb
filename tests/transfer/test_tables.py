"""It's decided for every model and every field that could hold a secret: either it's exported, or there is a reason why not."""

import re
from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import models
from django.db.models import Field, Model

from apps.accounts.models import User, Workspace
from apps.transfer.json_columns import SHAPES
from apps.transfer.tables import EXCEPTIONS, LISTED, NUMBERED, SPECIAL, TABLES, Table, is_numbered

EVERY = (*TABLES, *LISTED)
MOVING = {table.model for table in EVERY} | set(SPECIAL)
SUSPECT = re.compile(
    "secret|token|password|digest|hash|sha256|salt|key|prefix|address|url|location|variable|file|worker|process|command"
)
"""Names of fields that may hold a secret, or refer to a machine of the installation."""
NO_TEXT = (models.IntegerField, models.FloatField, models.BooleanField, models.DateTimeField, models.DecimalField)
"""Types of fields that can't."""


def suspects(model: type[Model]) -> Iterator[Field]:
    for field in model._meta.concrete_fields:
        if SUSPECT.search(field.name) and not isinstance(field, NO_TEXT):
            yield field


def _models() -> Iterator[type[Model]]:
    for model in apps.get_models(include_auto_created=True):
        if model.__module__.startswith("apps.") and model._meta.auto_created not in (User,):
            yield model


def test_every_model_moves_or_has_a_reason_why_not():
    for model in _models():
        places = [model in MOVING, model in EXCEPTIONS]
        assert places.count(True) == 1, f"{model._meta.label}: decide in apps/transfer/tables.py whether its rows move."
    assert all(EXCEPTIONS.values())


@pytest.mark.parametrize("table", EVERY, ids=lambda table: table.label)
def test_every_field_that_could_hold_a_secret_is_decided_on(table: Table):
    decided = {*table.left_out, *table.harmless}
    unsaid = sorted({field.name for field in suspects(table.model)} - decided)
    assert not unsaid, f"{table.label}: say in apps/transfer/tables.py whether {unsaid} may be in an archive."
    names = {field.name for field in table.model._meta.concrete_fields}
    assert {*decided, *table.elsewhere, *table.on_import, *table.ids_in_text} <= names
    assert not set(table.left_out) & set(table.harmless)
    assert set(table.harmless) <= {field.name for field in suspects(table.model)}


@pytest.mark.parametrize("table", EVERY, ids=lambda table: table.label)
def test_what_a_row_refers_to_moves_as_well(table: Table):
    for column in table.columns:
        if column.related_model is not None:
            assert column.related_model in {*MOVING, User}, f"{table.label}.{column.name} refers to what stays."
            if is_numbered(column.related_model._meta.pk) and column.related_model is not User:
                assert column.related_model in NUMBERED


@pytest.mark.parametrize("table", EVERY, ids=lambda table: table.label)
def test_its_rows_are_found_by_their_workspace(table: Table):
    for path in table.of:
        model: type[Model] = table.model
        for step in path.split("__"):
            field: Field = model._meta.get_field(step)
            model = field.related_model
        assert model is Workspace


def test_what_acts_by_itself_is_off_after_an_import():
    for table in TABLES:
        if any(field.name == "is_on" for field in table.model._meta.concrete_fields):
            assert table.on_import["is_on"] is False


def test_every_json_column_has_the_shape_that_its_readers_need():
    for table in TABLES:
        columns = {column.name for column in table.columns if isinstance(column, models.JSONField)}
        shapes = set(SHAPES.get(table.model, {}))
        assert shapes == columns, (
            f"{table.label}: say in apps/transfer/json_columns.py what {columns ^ shapes} look like."
        )
