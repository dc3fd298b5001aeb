import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

# A trigger keeps frozen versions from changing. Their files, which the hash covers, stay as they are. Quotes inside values are escaped,
# so only keys match.
RENAME_KEYS = """
ALTER TABLE datasets_version DISABLE TRIGGER frozen_version_stays;
UPDATE datasets_version SET
    recipe = replace(recipe::text, '"{judgments}":', '"{new_judgments}":')::jsonb,
    card = replace(replace(card::text, '"{judgments}":', '"{new_judgments}":'), '"{license}":', '"{new_license}":')::jsonb;
ALTER TABLE datasets_version ENABLE TRIGGER frozen_version_stays;
"""
BRITISH, AMERICAN = ("judgements", "licence"), ("judgments", "license")


def rename_keys(old: tuple[str, str], new: tuple[str, str]) -> str:
    return RENAME_KEYS.format(judgments=old[0], license=old[1], new_judgments=new[0], new_license=new[1])


class Migration(migrations.Migration):
    dependencies = [("datasets", "0001_squashed_0007_lists_newest_first")]
    operations = [
        migrations.RenameField("dataset", "licence", "license"),
        migrations.RemoveConstraint("versionjudgement", "one_judgement_of_one_kind"),
        migrations.RenameModel("VersionJudgement", "VersionJudgment"),
        migrations.AddConstraint(
            "versionjudgment",
            models.CheckConstraint(
                condition=Q(inspection__isnull=False, rating=None) | Q(inspection=None, rating__isnull=False),
                name="one_judgment_of_one_kind",
            ),
        ),
        migrations.AlterField(
            "versionjudgment",
            "version",
            models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="judgments",
                to="datasets.version",
            ),
        ),
        migrations.RunSQL(rename_keys(BRITISH, AMERICAN), rename_keys(AMERICAN, BRITISH)),
    ]
