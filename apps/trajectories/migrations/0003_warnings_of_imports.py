from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('trajectories', '0002_outcomes_said_later'),
    ]

    operations = [
        migrations.AddField(
            model_name='importbatch',
            name='task_count',
            field=models.IntegerField(help_text='Tasks of its trajectories, once it is done.', null=True),
        ),
        migrations.AddField(
            model_name='importbatch',
            name='warning_count',
            field=models.IntegerField(default=0, help_text='What was left out of records that came in.'),
        ),
        migrations.AddField(
            model_name='importbatch',
            name='warnings',
            field=models.JSONField(default=list, help_text='The first of them, in words with their places.'),
        ),
    ]
