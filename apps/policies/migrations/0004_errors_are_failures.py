from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("policies", "0003_publications_are_jobs")]

    operations = [
        migrations.RunSQL(
            "UPDATE policies_publication SET failure = jsonb_build_object('message', error) WHERE error <> ''",
            "UPDATE policies_publication SET error = failure ->> 'message' WHERE failure ? 'message'",
        ),
    ]
