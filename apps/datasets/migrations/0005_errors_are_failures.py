from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("datasets", "0004_versions_are_jobs")]

    operations = [
        migrations.RunSQL(
            "UPDATE datasets_version SET state = 'waiting' WHERE state = 'freezing' AND attempt = 0",
            "UPDATE datasets_version SET state = 'freezing' WHERE state = 'waiting'",
        ),
        migrations.RunSQL(
            "UPDATE datasets_version SET failure = jsonb_build_object('message', error) WHERE error <> ''",
            "UPDATE datasets_version SET error = failure ->> 'message' WHERE failure ? 'message'",
        ),
    ]
