from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("policies", "0005_errors_are_told_once")]

    operations = [
        migrations.AddField(
            model_name="endpoint",
            name="replicas",
            field=ArrayField(
                models.URLField(max_length=300),
                blank=True,
                default=list,
                help_text='Additional servers with the same models as the first.',
                size=None,
            ),
        ),
    ]
