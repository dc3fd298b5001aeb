"""Creates the tables of deletions and retention rules in new databases. Older ones have run the migrations it replaces."""

import apps.common.ids
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('removal', '0001_schema'), ('removal', '0002_retention_rules')]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('accounts', '__first__'),
    ]

    operations = [
        migrations.CreateModel(
            name='Removal',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('queued_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='Since when it waits, or last waited, for a worker.')),
                ('attempt', models.PositiveIntegerField(default=0, help_text='How often a worker has taken it.')),
                ('worker', models.CharField(blank=True, help_text='host:process of the one that has it.', max_length=200)),
                ('process_id', models.PositiveIntegerField(help_text='Of the child that does it, on `worker`.', null=True)),
                ('leased_until', models.DateTimeField(help_text='While it waits: when to tell the workers again.', null=True)),
                ('losses', models.PositiveSmallIntegerField(default=0, help_text='Attempts that were lost since it was started, or last got on.')),
                ('loss', models.TextField(blank=True, help_text='Why the last of them was lost.')),
                ('failure', models.JSONField(default=dict, help_text='Category, message, advice, last log lines, command.')),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('thing', models.CharField(choices=[('trajectory', 'Trajectory'), ('task', 'Task'), ('queue', 'Queue'), ('dataset', 'Dataset'), ('version', 'Dataset version'), ('expired', 'Expired trajectories')], max_length=12)),
                ('target', models.UUIDField(help_text="Its id. What it names is gone once this is done. Of expired ones the rule's.")),
                ('title', models.CharField(help_text='What it was called.', max_length=200)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=10)),
                ('removed', models.JSONField(default=dict, help_text='What went, in words, and how many of each.')),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['workspace', '-id'], name='removal_newest'), models.Index(condition=models.Q(('state__in', ['waiting', 'running'])), fields=['leased_until'], name='removal_leases')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'running', 'done', 'failed', 'cancelled'])), name='removal_state_is_known'), models.UniqueConstraint(condition=models.Q(('state__in', ['waiting', 'running'])), fields=('thing', 'target'), name='one_removal_at_a_time')],
            },
        ),
        migrations.CreateModel(
            name='RetentionRule',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('source', models.CharField(help_text="As trajectories have it: an import's format, rollout, gateway…", max_length=50)),
                ('days', models.PositiveSmallIntegerField(help_text='Since they came.')),
                ('is_on', models.BooleanField(default=False)),
                ('ran_at', models.DateTimeField(help_text='When a deletion was last asked for by it.', null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('is_on', True)), fields=['ran_at'], name='retention_rule_in_force')],
                'constraints': [models.UniqueConstraint(fields=('workspace', 'source'), name='one_retention_rule_per_source'), models.CheckConstraint(condition=models.Q(('days__range', (1, 3650))), name='retention_is_a_day_to_ten_years')],
            },
        ),
    ]
