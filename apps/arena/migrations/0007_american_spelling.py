from django.db import migrations, models
from django.db.models import Q

# Quotes inside values are escaped, so only keys match.
RENAME = """
UPDATE arena_experiment SET state = '{new}ing' WHERE state = '{old}ing';
UPDATE arena_experiment SET verdict = replace(
    replace(verdict::text, '"{old_key}_by_kind":', '"{new_key}_by_kind":'), '"{old_key}":', '"{new_key}":'
)::jsonb;
"""
BRITISH, AMERICAN = ("labell", "judgements"), ("label", "judgments")


def rename(old: tuple[str, str], new: tuple[str, str]) -> str:
    return RENAME.format(old=old[0], old_key=old[1], new=new[0], new_key=new[1])


class Migration(migrations.Migration):
    dependencies = [("arena", "0001_squashed_0006_live_experiments")]
    operations = [
        migrations.RemoveConstraint("experiment", "one_live_experiment_at_a_time_per_split"),
        migrations.RunSQL(rename(BRITISH, AMERICAN), rename(AMERICAN, BRITISH)),
        migrations.AlterField(
            "experiment",
            "state",
            models.CharField(
                choices=[
                    ("rolling_out", "Rolling out"),
                    ("labeling", "Being labeled"),
                    ("stopped", "Decided"),
                    ("failed", "Failed"),
                ],
                default="rolling_out",
                max_length=12,
            ),
        ),
        migrations.AddConstraint(
            "experiment",
            models.UniqueConstraint(
                condition=Q(state="labeling"), fields=["split"], name="one_live_experiment_at_a_time_per_split"
            ),
        ),
    ]
