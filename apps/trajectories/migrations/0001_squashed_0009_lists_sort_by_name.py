"""Creates the tables of trajectories, tasks, and imports in new databases. Older ones have run the migrations it replaces."""

import apps.common.fields
import apps.common.ids
import apps.trajectories.search
import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('trajectories', '0001_schema'), ('trajectories', '0002_outcomes_said_later'), ('trajectories', '0003_warnings_of_imports'), ('trajectories', '0004_batches_are_jobs'), ('trajectories', '0005_errors_are_failures'), ('trajectories', '0006_errors_are_told_once'), ('trajectories', '0007_words'), ('trajectories', '0008_called_tools'), ('trajectories', '0009_lists_sort_by_name')]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('accounts', '__first__'),
        ('policies', '0001_squashed_0011_lists_newest_first'),
    ]

    operations = [
        migrations.CreateModel(
            name='RolloutBatch',
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
                ('environment', models.CharField(max_length=100)),
                ('config', models.JSONField(default=dict, help_text='Task selection, samples per task, sampling, and budgets.')),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=10)),
                ('total', models.IntegerField(default=0)),
                ('finished', models.IntegerField(default=0)),
                ('succeeded', models.IntegerField(default=0)),
                ('position', models.BigIntegerField(default=0, help_text="Bytes of the trainer's output stored so far.")),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('policy', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='rollouts', to='policies.policy')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['workspace', '-id'], name='rollout_newest'), models.Index(condition=models.Q(('state__in', ['waiting', 'running'])), fields=['leased_until'], name='rollout_leases')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'running', 'done', 'failed', 'cancelled'])), name='rollout_state_is_known')],
            },
        ),
        migrations.CreateModel(
            name='Task',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('key', models.CharField(max_length=300)),
                ('environment', models.CharField(blank=True, max_length=100)),
                ('instruction', models.TextField(blank=True, help_text='The instruction as people read it; NUL and lone surrogates are made visible.')),
                ('initial_state', apps.common.fields.FaithfulJSONField(default=dict)),
                ('success_check', apps.common.fields.FaithfulJSONField(default=dict)),
                ('category', models.CharField(blank=True, max_length=100)),
                ('difficulty', models.CharField(blank=True, max_length=50)),
                ('held_out', models.BooleanField(default=False, help_text='Kept for evaluation; never in a training split.')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['workspace', '-id'], name='task_newest'), django.contrib.postgres.indexes.GinIndex(apps.trajectories.search.Words(django.db.models.functions.text.Concat('key', models.Value(' '), django.db.models.functions.text.Left('instruction', 20000), output_field=models.TextField())), name='task_words')],
                'constraints': [models.UniqueConstraint(fields=('workspace', 'environment', 'key'), name='one_task_per_key')],
            },
        ),
        migrations.CreateModel(
            name='ImportBatch',
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
                ('filename', models.CharField(max_length=300)),
                ('file', models.FileField(max_length=400, upload_to='imports/%Y/%m/')),
                ('size', models.BigIntegerField(default=0, help_text='Size of the uploaded file in bytes.')),
                ('sha256', models.CharField(blank=True, max_length=64)),
                ('format', models.CharField(blank=True, max_length=50)),
                ('policy_name', models.CharField(blank=True, help_text="Policy of trajectories that don't name one.", max_length=200)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=10)),
                ('position', models.BigIntegerField(default=0, help_text='Records of the file processed so far, valid or not.')),
                ('bytes_read', models.BigIntegerField(default=0)),
                ('trajectory_count', models.IntegerField(default=0)),
                ('step_count', models.BigIntegerField(default=0)),
                ('duplicate_count', models.IntegerField(default=0)),
                ('rejected_count', models.IntegerField(default=0)),
                ('outcome_count', models.IntegerField(default=0, help_text='Existing trajectories that got an outcome from this import.')),
                ('task_count', models.IntegerField(help_text='Number of tasks of its trajectories, once the import is done.', null=True)),
                ('warning_count', models.IntegerField(default=0, help_text='Number of warnings: parts left out of imported records.')),
                ('warnings', models.JSONField(default=list, help_text='The first warnings, as text with their positions.')),
                ('idempotency_key', models.CharField(blank=True, help_text='The `Idempotency-Key` of the API request that started the import.', max_length=200)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['workspace', '-id'], name='import_newest'), models.Index(fields=['workspace', 'filename', 'id'], name='import_by_file'), models.Index(fields=['workspace', 'trajectory_count', 'id'], name='import_by_size'), models.Index(fields=['workspace', 'sha256'], name='import_by_hash'), models.Index(condition=models.Q(('state__in', ['waiting', 'running'])), fields=['leased_until'], name='import_leases')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'running', 'done', 'failed', 'cancelled'])), name='import_state_is_known'), models.UniqueConstraint(condition=models.Q(('idempotency_key', ''), _negated=True), fields=('workspace', 'idempotency_key'), name='one_import_per_idempotency_key')],
            },
        ),
        migrations.CreateModel(
            name='Trajectory',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('source', models.CharField(help_text='The import format, or `rollout`.', max_length=50)),
                ('external_id', models.CharField(blank=True, max_length=300)),
                ('branch_step', models.PositiveIntegerField(help_text='The first step that differs from the parent.', null=True)),
                ('reward', models.FloatField(null=True)),
                ('success', models.BooleanField(null=True)),
                ('termination', models.CharField(blank=True, max_length=100)),
                ('step_count', models.PositiveIntegerField()),
                ('error_count', models.PositiveIntegerField(default=0)),
                ('token_count', models.BigIntegerField(help_text='Tokens generated by the policy.', null=True)),
                ('seconds', models.FloatField(null=True)),
                ('tags', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, default=list, size=None)),
                ('called', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, db_default=[], default=list, help_text='Names of the tools called in its steps.', size=None)),
                ('tools', apps.common.fields.FaithfulJSONField(default=list, help_text='OpenAI-style function schemas given to the policy.')),
                ('closing', apps.common.fields.FaithfulJSONField(default=list, help_text='Messages after the last step.')),
                ('info', apps.common.fields.FaithfulJSONField(default=dict)),
                ('content_hash', models.BinaryField(max_length=32)),
                ('course', models.BigIntegerField(help_text='Digest of inputs, actions, and messages, equal for indistinguishable trajectories. Null: not recorded.', null=True)),
                ('import_batch', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='trajectories', to='trajectories.importbatch')),
                ('outcome_batch', models.ForeignKey(db_index=False, help_text='The later import whose report recorded whether the trajectory succeeded.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='outcomes', to='trajectories.importbatch')),
                ('parent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='branches', to='trajectories.trajectory')),
                ('policy', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='trajectories', to='policies.policy')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
                ('rollout_batch', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='trajectories', to='trajectories.rolloutbatch')),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='trajectories', to='trajectories.task')),
            ],
            options={
                'indexes': [models.Index(fields=['workspace', '-id'], name='trajectory_newest'), models.Index(fields=['task', '-id'], name='trajectory_by_task'), models.Index(fields=['workspace', 'policy', '-id'], name='trajectory_by_policy'), models.Index(fields=['workspace', 'success', '-id'], name='trajectory_by_outcome'), models.Index(fields=['workspace', 'source', '-id'], name='trajectory_by_source'), models.Index(condition=models.Q(('error_count__gt', 0)), fields=['workspace', '-id'], name='trajectory_with_errors'), models.Index(fields=['workspace', 'step_count', 'id'], name='trajectory_by_length'), models.Index(condition=models.Q(('external_id', ''), _negated=True), fields=['workspace', 'external_id'], name='trajectory_by_external_id'), models.Index(condition=models.Q(('outcome_batch__isnull', False)), fields=['outcome_batch'], name='trajectory_by_report'), django.contrib.postgres.indexes.GinIndex(fields=['tags'], name='trajectory_tags'), django.contrib.postgres.indexes.GinIndex(fields=['called'], name='trajectory_called')],
                'constraints': [models.UniqueConstraint(fields=('workspace', 'content_hash'), name='one_trajectory_per_content'), models.CheckConstraint(condition=models.Q(('parent', None), ('branch_step__isnull', False), _connector='OR'), name='branch_has_a_step'), models.CheckConstraint(condition=models.Q(('parent', models.F('id')), _negated=True), name='not_its_own_parent')],
            },
        ),
        migrations.CreateModel(
            name='Original',
            fields=[
                ('trajectory', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='original', serialize=False, to='trajectories.trajectory')),
                ('body', models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name='RejectedRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.BigIntegerField(help_text='0-based index of the record in the file.')),
                ('line', models.BigIntegerField(help_text='1-based line number, or record number in a JSON list.')),
                ('reason', models.TextField()),
                ('expected', models.TextField()),
                ('excerpt', models.TextField(blank=True)),
                ('batch', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rejected_rows', to='trajectories.importbatch')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('batch', 'position'), name='one_rejection_per_record')],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('name', models.CharField(max_length=60)),
                ('query', models.CharField(help_text='The query string, as produced by `Filters.query`.', max_length=2000)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('workspace', 'name'), name='one_view_per_name'), models.UniqueConstraint(fields=('workspace', 'query'), name='one_view_per_query')],
            },
        ),
        migrations.CreateModel(
            name='Step',
            fields=[
                ('pk', models.CompositePrimaryKey('trajectory_id', 'index', blank=True, editable=False, primary_key=True, serialize=False)),
                ('index', models.PositiveIntegerField(help_text='0-based.')),
                ('kind', models.CharField(choices=[('tool', 'Tool call'), ('message', 'Message'), ('reasoning', 'Reasoning'), ('final', 'Final answer')], max_length=10)),
                ('tool', models.CharField(blank=True, help_text='Names of the tools called, joined by commas.', max_length=100)),
                ('action', models.BinaryField(help_text='Digest of the action, equal for steps with the same action.', max_length=16)),
                ('headline', models.CharField(blank=True, help_text='The most informative argument of the call, or the first line of the message.', max_length=200)),
                ('result', models.CharField(blank=True, help_text="The tool's result, in one line.", max_length=200)),
                ('is_error', models.BooleanField(default=False, help_text='The call failed, or its result says so.')),
                ('reward', models.FloatField(null=True)),
                ('done', models.BooleanField(default=False)),
                ('seconds', models.FloatField(null=True)),
                ('prompt_tokens', models.IntegerField(null=True)),
                ('completion_tokens', models.IntegerField(null=True)),
                ('context_chars', models.IntegerField(default=0, help_text='Characters in `context`.')),
                ('result_chars', models.IntegerField(default=0, help_text='Characters in the results of this step.')),
                ('context', apps.common.fields.FaithfulJSONField(help_text='Chat messages since the previous step: system, user, tool results.')),
                ('message', apps.common.fields.FaithfulJSONField(help_text='The assistant message: content, reasoning_content, tool_calls.')),
                ('info', apps.common.fields.FaithfulJSONField(default=dict)),
                ('trajectory', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='trajectories.trajectory')),
            ],
        ),
    ]
