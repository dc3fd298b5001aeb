"""Files that are being received."""

from __future__ import annotations

from django.db import models


class Upload(models.Model):
    """A file on its way to storage. The job that takes the file deletes this row; a row that stays is of a process that was killed.

    What a killed process left is found by its row, never by listing the storage: other installations may have files in the same bucket.
    """

    name = models.CharField(max_length=400, unique=True)
    started_at = models.DateTimeField(auto_now_add=True, db_index=True)

    def __str__(self) -> str:
        return self.name
