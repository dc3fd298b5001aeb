from django.db import migrations

RENAME = """
UPDATE trajectories_importbatch SET format = '{new}' WHERE format = '{old}';
UPDATE trajectories_trajectory SET source = '{new}' WHERE source = '{old}';
"""


class Migration(migrations.Migration):
    dependencies = [("trajectories", "0001_squashed_0009_lists_sort_by_name")]
    operations = [
        migrations.RunSQL(
            RENAME.format(old="labelled-steps", new="labeled-steps"),
            RENAME.format(old="labeled-steps", new="labelled-steps"),
        )
    ]
