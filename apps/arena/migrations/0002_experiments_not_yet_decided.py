"""A periodic task looks every few seconds for experiments with work to do."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('arena', '0001_schema'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='experiment',
            index=models.Index(condition=models.Q(('state', 'stopped'), _negated=True), fields=['state'], name='experiment_undecided'),
        ),
    ]
