from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("policies", "0001_schema")]

    operations = [
        migrations.AlterField(
            model_name="policy",
            name="location",
            field=models.CharField(
                blank=True,
                help_text="A folder under MODEL_ROOTS, a hub id, the name of a script, or a server's model name; empty where a run made it.",
                max_length=500,
            ),
        )
    ]
