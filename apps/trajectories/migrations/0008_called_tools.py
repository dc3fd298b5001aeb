"""Adds the names of the called tools to trajectories, and makes the order by length unambiguous."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
from django.db import migrations, models

# Fills the column of existing trajectories from the outlines of their steps, without truncated names.
FILL = """
UPDATE trajectories_trajectory AS run SET called = found.names
FROM (
    SELECT trajectory_id, (array_agg(DISTINCT name ORDER BY name))[1:50] AS names
    FROM trajectories_step, unnest(string_to_array(tool, ', ')) AS name
    WHERE name <> '' AND name NOT LIKE '%…' GROUP BY trajectory_id
) AS found
WHERE found.trajectory_id = run.id
"""


class Migration(migrations.Migration):
    dependencies = [("trajectories", "0007_words")]

    operations = [
        migrations.AddField(
            model_name="trajectory",
            name="called",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=100),
                blank=True,
                db_default=[],
                default=list,
                help_text='Names of the tools called in its steps.',
                size=None,
            ),
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        # Constraint checks that the update deferred would prevent the changes to indexes.
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", migrations.RunSQL.noop),
        migrations.RemoveIndex(model_name="trajectory", name="trajectory_by_length"),
        migrations.AddIndex(
            model_name="trajectory",
            index=models.Index(fields=["workspace", "step_count", "id"], name="trajectory_by_length"),
        ),
        migrations.AddIndex(
            model_name="trajectory",
            index=django.contrib.postgres.indexes.GinIndex(fields=["called"], name="trajectory_called"),
        ),
    ]
