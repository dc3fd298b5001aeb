"""Column defaults for benchmarks, which insert a hundred thousand rows at once with SQL and omit irrelevant columns."""

from __future__ import annotations

from django.apps import apps
from django.db import connection, models
from django.db.models.fields import NOT_PROVIDED
from psycopg import sql


def give_defaults() -> None:
    """Set Django's field defaults in Postgres, in this benchmark's temporary database."""
    with connection.cursor() as cursor:
        for model in apps.get_models():
            for field in model._meta.local_concrete_fields:
                value = _default(field)
                if value is not None:
                    statement = sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET DEFAULT {}").format(
                        sql.Identifier(model._meta.db_table), sql.Identifier(str(field.column)), sql.Literal(value)
                    )
                    cursor.execute(statement)


def _default(field: models.Field[object, object]) -> object:
    """The constant that Django would insert for a missing value; None if there is none."""
    if field.primary_key or field.null or field.db_default is not NOT_PROVIDED:
        return None
    if field.default is NOT_PROVIDED:
        return "" if field.empty_strings_allowed and field.blank else None
    if callable(field.default) and field.default not in (dict, list):
        return None
    return field.get_db_prep_save(field.get_default(), connection)
