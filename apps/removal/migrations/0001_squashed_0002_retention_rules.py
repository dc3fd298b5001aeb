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
                ('queued_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='Since when the job has been waiting, or was last waiting, for a worker.')),
                ('attempt', models.PositiveIntegerField(default=0, help_text='How many times a worker has claimed the job.')),
                ('worker', models.CharField(blank=True, help_text='host:process of the worker that holds the job.', max_length=200)),
                ('process_id', models.PositiveIntegerField(help_text='Id of the child process that runs the job, on the host of `worker`.', null=True)),
                ('leased_until', models.DateTimeField(help_text="End of the worker's lease; while the job waits, when to resend its message to the workers.", null=True)),
                ('losses', models.PositiveSmallIntegerField(default=0, help_text='Attempts lost since the job was started or last made progress.')),
                ('loss', models.TextField(blank=True, help_text='Why the last attempt was lost.')),
                ('failure', models.JSONField(default=dict, help_text='Category, message, advice, last log lines, command.')),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('thing', models.CharField(choices=[('trajectory', 'Trajectory'), ('task', 'Task'), ('queue', 'Queue'), ('dataset', 'Dataset'), ('version', 'Dataset version'), ('expired', 'Expired trajectories')], max_length=12)),
                ('target', models.UUIDField(help_text="Id of the thing to delete, which no longer exists once the job is done; for expired trajectories, the retention rule's id.")),
                ('title', models.CharField(help_text="The thing's name before deletion.", max_length=200)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=10)),
                ('removed', models.JSONField(default=dict, help_text='Number of deleted objects by description.')),
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
                ('source', models.CharField(help_text="A trajectory's source: an import format, rollout, gateway…", max_length=50)),
                ('days', models.PositiveSmallIntegerField(help_text='Days for which trajectories are kept after they were added.')),
                ('is_on', models.BooleanField(default=False)),
                ('ran_at', models.DateTimeField(help_text='When the rule last requested a deletion.', null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('is_on', True)), fields=['ran_at'], name='retention_rule_in_force')],
                'constraints': [models.UniqueConstraint(fields=('workspace', 'source'), name='one_retention_rule_per_source'), models.CheckConstraint(condition=models.Q(('days__range', (1, 3650))), name='retention_is_a_day_to_ten_years')],
            },
        ),
    ]
