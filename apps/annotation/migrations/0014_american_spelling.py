from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("annotation", "0001_squashed_0013_judgments_of_users")]
    operations = [
        migrations.RenameField("queue", "labellers", "labelers"),
        migrations.AlterField(
            "queue",
            "is_restricted",
            models.BooleanField(default=False, help_text="Only `labelers` are given items of this queue."),
        ),
        migrations.RemoveConstraint("preference", "one_judgement_per_annotator"),
        migrations.AddConstraint(
            "preference",
            models.UniqueConstraint(
                condition=Q(retracted_at=None), fields=["item", "annotator"], name="one_judgment_per_annotator"
            ),
        ),
    ]
