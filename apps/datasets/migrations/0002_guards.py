"""Triggers and keys that guard frozen versions and splits."""

from django.db import migrations

from apps.datasets.migrations._guards import FROZEN_VERSION, TASK_SPLIT, UNDO


class Migration(migrations.Migration):
    dependencies = [("datasets", "0001_schema")]

    operations = [migrations.RunSQL(FROZEN_VERSION + TASK_SPLIT, UNDO)]
