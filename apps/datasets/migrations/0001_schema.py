import apps.common.ids
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('accounts', '0001_initial'),
        ('annotation', '0001_schema'),
        ('trajectories', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='Dataset',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('name', models.CharField(max_length=200)),
                ('description', models.TextField(blank=True)),
                ('licence', models.CharField(blank=True, help_text='Terms under which the rows may be used.', max_length=200)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('workspace', 'name'), name='one_dataset_per_name')],
            },
        ),
        migrations.CreateModel(
            name='TaskSplit',
            fields=[
                ('task', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='split', serialize=False, to='trajectories.task')),
                ('split', models.CharField(choices=[('train', 'Train'), ('validation', 'Validation'), ('test', 'Test')], max_length=10)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('split__in', ['train', 'validation', 'test'])), name='split_is_known')],
            },
        ),
        migrations.CreateModel(
            name='Version',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('number', models.PositiveIntegerField()),
                ('row_type', models.CharField(default='preference', max_length=20)),
                ('state', models.CharField(choices=[('freezing', 'Freezing'), ('frozen', 'Frozen'), ('failed', 'Failed')], default='freezing', max_length=10)),
                ('recipe', models.JSONField(default=dict, help_text='Queues, rules for ties and disagreements, split shares, seed.')),
                ('row_counts', models.JSONField(default=dict, help_text='Number of rows in each split.')),
                ('rows_done', models.PositiveIntegerField(default=0)),
                ('rows_expected', models.PositiveIntegerField(default=0)),
                ('content_hash', models.CharField(blank=True, help_text='SHA-256 of what `sha256sum train.jsonl validation.jsonl test.jsonl` prints.', max_length=64)),
                ('files', models.JSONField(default=dict, help_text='Per format and split: storage name, bytes, sha256.')),
                ('card', models.JSONField(default=dict, help_text='Dataset card: contents, annotators, and their agreement.')),
                ('error', models.TextField(blank=True)),
                ('attempt', models.PositiveIntegerField(default=0, help_text='How many times a worker has claimed the job.')),
                ('leased_until', models.DateTimeField(null=True)),
                ('frozen_at', models.DateTimeField(null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('dataset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='datasets.dataset')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', 'freezing')), fields=['leased_until'], name='version_leases'), models.Index(fields=['workspace', '-id'], name='version_newest')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('state', 'frozen'), _negated=True), models.Q(('frozen_at__isnull', False), models.Q(('content_hash', ''), _negated=True)), _connector='OR'), name='frozen_version_has_its_hash'), models.UniqueConstraint(fields=('dataset', 'number'), name='one_version_per_number'), models.CheckConstraint(condition=models.Q(('state__in', ['freezing', 'frozen', 'failed'])), name='version_state_is_known')],
            },
        ),
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
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('inspection__isnull', False), ('rating', None)), models.Q(('inspection', None), ('rating__isnull', False)), _connector='OR'), name='one_judgement_of_one_kind'), models.UniqueConstraint(fields=('version', 'split', 'row', 'inspection', 'rating'), name='one_use_per_row', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='VersionPreference',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('split', models.CharField(choices=[('train', 'Train'), ('validation', 'Validation'), ('test', 'Test')], max_length=10)),
                ('row', models.PositiveIntegerField(help_text='Row number within the split, from 0.')),
                ('preference', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='used_in', to='annotation.preference')),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='trajectories.task')),
                ('version', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='sources', to='datasets.version')),
            ],
            options={
                'indexes': [models.Index(fields=['version', 'split', 'row'], name='source_of_row')],
                'constraints': [models.UniqueConstraint(fields=('version', 'preference'), name='one_use_per_version')],
            },
        ),
    ]
