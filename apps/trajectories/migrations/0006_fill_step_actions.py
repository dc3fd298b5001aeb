"""Digests for the steps that were stored before there were any. Told twice, it goes on where it was."""

from typing import Any

from django.db import migrations

from apps.trajectories.actions import digest_of

AT_ONCE = 100


def fill(apps: Any, schema_editor: Any) -> None:
    Step = apps.get_model("trajectories", "Step")
    runs = apps.get_model("trajectories", "Trajectory").objects.values_list("pk", flat=True)
    for run in list(runs):
        steps = Step.objects.filter(trajectory_id=run, action=b"").only("trajectory_id", "index", "message", "info")
        while batch := list(steps[:AT_ONCE]):
            for step in batch:
                step.action = digest_of(step.message, step.info if isinstance(step.info, dict) else None)
            Step.objects.bulk_update(batch, ["action"])


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("trajectories", "0005_step_action"),
    ]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
