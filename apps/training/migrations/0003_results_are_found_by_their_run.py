"""Clears the locations of policies made by runs, whose weights are found through the run, so that nothing can read the old text."""

from django.db import migrations


def forget_locations(apps, schema_editor):
    apps.get_model("policies", "Policy").objects.filter(made_by__isnull=False).update(location="")


def remember_locations(apps, schema_editor):
    for run in apps.get_model("training", "Run").objects.filter(result__isnull=False).iterator():
        apps.get_model("policies", "Policy").objects.filter(pk=run.result_id).update(location=f"{run.pk}/model")


class Migration(migrations.Migration):
    dependencies = [
        ("training", "0002_runs_know_since_when_they_wait"),
        ("policies", "0002_locations_are_what_people_typed"),
    ]

    operations = [migrations.RunPython(forget_locations, remember_locations)]
