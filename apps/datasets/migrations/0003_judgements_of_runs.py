"""Versions made of judgements of single runs; what protects the sources of pairs protects theirs too."""

import django.db.models.deletion
from django.db import migrations, models

SOURCES = """
CREATE TRIGGER frozen_judgements_stay BEFORE INSERT OR UPDATE OR DELETE ON datasets_versionjudgement
    FOR EACH ROW EXECUTE FUNCTION datasets_keep_frozen_sources();
ALTER TABLE datasets_versionjudgement ADD CONSTRAINT judgement_is_in_the_split_of_its_task
    FOREIGN KEY (task_id, split) REFERENCES datasets_tasksplit (task_id, split);
"""

UNDO = """
ALTER TABLE datasets_versionjudgement DROP CONSTRAINT judgement_is_in_the_split_of_its_task;
DROP TRIGGER frozen_judgements_stay ON datasets_versionjudgement;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('annotation', '0004_ratings'),
        ('datasets', '0002_frozen_for_ever'),
        ('trajectories', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='VersionJudgement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('split', models.CharField(choices=[('train', 'Train'), ('validation', 'Validation'), ('test', 'Test')], max_length=10)),
                ('row', models.PositiveIntegerField(help_text='Row number within the split, from 0.')),
                ('inspection', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='used_in', to='annotation.inspection')),
                ('rating', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='used_in', to='annotation.rating')),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='trajectories.task')),
                ('version', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='judgements', to='datasets.version')),
            ],
        ),
        migrations.AddConstraint(
            model_name='versionjudgement',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('inspection__isnull', False), ('rating', None)), models.Q(('inspection', None), ('rating__isnull', False)), _connector='OR'), name='one_judgement_of_one_kind'),
        ),
        migrations.AddConstraint(
            model_name='versionjudgement',
            constraint=models.UniqueConstraint(fields=('version', 'split', 'row', 'inspection', 'rating'), name='one_use_per_row', nulls_distinct=False),
        ),
        migrations.RunSQL(SOURCES, UNDO),
    ]
