from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('trajectories', '0002_outcomes_said_later'),
    ]

    operations = [
        migrations.AddField(
            model_name='importbatch',
            name='task_count',
            field=models.IntegerField(help_text='Number of tasks of its trajectories, once the import is done.', null=True),
        ),
        migrations.AddField(
            model_name='importbatch',
            name='warning_count',
            field=models.IntegerField(default=0, help_text='Number of warnings: parts left out of imported records.'),
        ),
        migrations.AddField(
            model_name='importbatch',
            name='warnings',
            field=models.JSONField(default=list, help_text='The first warnings, as text with their positions.'),
        ),
    ]
