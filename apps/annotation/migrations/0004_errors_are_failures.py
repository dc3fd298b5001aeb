from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("annotation", "0003_judges_and_continuations_are_jobs")]

    operations = [
        migrations.RunSQL(  # a worker that holds one finds its lease gone; a periodic task enqueues it again
            "UPDATE annotation_judge SET state = 'waiting', leased_until = now() WHERE state = 'running'",
            "UPDATE annotation_judge SET state = 'running', leased_until = NULL WHERE state IN ('waiting', 'pausing')",
        ),
        migrations.RunSQL(
            "UPDATE annotation_continuation SET failure = jsonb_build_object('message', error) WHERE error <> ''",
            "UPDATE annotation_continuation SET error = failure ->> 'message' WHERE failure ? 'message'",
        ),
        migrations.RunSQL(
            "UPDATE annotation_judge SET failure = jsonb_build_object('message', error) WHERE error <> ''",
            "UPDATE annotation_judge SET error = failure ->> 'message' WHERE failure ? 'message'",
        ),
    ]
