"""Custom model fields."""

import json
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Expression


class FaithfulJSONField(models.JSONField):
    r"""JSON stored as its original text: Postgres `json`, not `jsonb`.

    Agents' output holds NUL characters and lone surrogates. `jsonb` refuses both; `json` keeps their \u escapes, and with
    them key order and number spelling. It can't be indexed or queried, which is fine for payloads that are
    only displayed and exported.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "json"

    def from_db_value(self, value: Any, expression: Expression, connection: BaseDatabaseWrapper) -> Any:
        # psycopg decodes the json type by itself; Django switches that off for jsonb only.
        return json.loads(value) if isinstance(value, str | bytes) and connection.vendor != "postgresql" else value

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        if value is None or hasattr(value, "as_sql"):
            return value
        return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
