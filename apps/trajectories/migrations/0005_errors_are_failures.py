from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("trajectories", "0004_batches_are_jobs")]

    operations = [
        migrations.RunSQL(
            "UPDATE trajectories_importbatch SET failure = jsonb_build_object('message', error) WHERE error <> ''",
            "UPDATE trajectories_importbatch SET error = failure ->> 'message' WHERE failure ? 'message'",
        ),
    ]
