"""Creates the tables of training runs and what they report in new databases. Older ones have run the migrations it replaces."""

import apps.common.fields
import apps.common.ids
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('training', '0001_schema'), ('training', '0002_runs_know_since_when_they_wait'), ('training', '0003_results_are_found_by_their_run'), ('training', '0004_runs_know_their_learned_rewards'), ('training', '0005_runs_are_jobs'), ('training', '0006_words'), ('training', '0007_alarms_name_a_setting'), ('training', '0008_runs_know_their_pace'), ('training', '0009_lists_sort_by_name'), ('training', '0010_episodes_of_runners'), ('training', '0011_runners_play_rollouts')]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('accounts', '__first__'),
        ('datasets', '0001_squashed_0007_lists_newest_first'),
        ('gateway', '0001_squashed_0010_redacted_calls'),
        ('policies', '0001_squashed_0011_lists_newest_first'),
        ('trajectories', '0001_squashed_0009_lists_sort_by_name'),
    ]

    operations = [
        migrations.CreateModel(
            name='Run',
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
                ('name', models.CharField(max_length=200)),
                ('algorithm', models.CharField(choices=[('sft', 'Supervised fine-tuning'), ('reward_model', 'Reward model'), ('dpo', 'DPO'), ('kto', 'KTO'), ('process_reward_model', 'Process reward model'), ('grpo', 'GRPO'), ('rloo', 'RLOO'), ('star', 'Rejection sampling (STaR)')], max_length=20)),
                ('preset', models.CharField(blank=True, max_length=20)),
                ('config', models.JSONField(default=dict, help_text="The algorithm's settings, as validated by the trainer; the worker adds model and data.")),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('starting', 'Starting'), ('running', 'Running'), ('cancelling', 'Cancelling'), ('cancelled', 'Cancelled'), ('finished', 'Finished'), ('failed', 'Failed')], default='queued', max_length=12)),
                ('events_seq', models.PositiveIntegerField(default=0, help_text='Sequence number of the last trainer event stored.')),
                ('events_offset', models.BigIntegerField(default=0, help_text='Byte offset in events.jsonl after that event.')),
                ('step', models.PositiveIntegerField(default=0)),
                ('total_steps', models.PositiveIntegerField(default=0)),
                ('running_since', models.DateTimeField(help_text="When this attempt's first step began.", null=True)),
                ('running_from', models.PositiveIntegerField(default=0, help_text='The step at which this attempt began.')),
                ('step_seconds', models.FloatField(help_text='Typical duration of a step in this attempt, including checkpoints.', null=True)),
                ('evaluation_seconds', models.FloatField(help_text='Typical duration of an evaluation in this attempt.', null=True)),
                ('evaluations_ahead', models.PositiveIntegerField(default=0, help_text='Evaluations scheduled after the current step.')),
                ('expected_seconds', models.FloatField(help_text='Duration of training, as estimated by the worker at the start.', null=True)),
                ('expected_because', models.TextField(blank=True, help_text='What the estimate is based on.')),
                ('checkpoint_step', models.PositiveIntegerField(null=True)),
                ('device', models.CharField(blank=True, max_length=100)),
                ('parameters', models.BigIntegerField(help_text='Number of model parameters, including frozen ones.', null=True)),
                ('memory_mb', models.FloatField(help_text='Memory used by the child process at its last heartbeat.', null=True)),
                ('command', models.TextField(blank=True, help_text='The command that the worker ran, in shell syntax.')),
                ('report', models.JSONField(default=dict)),
                ('base', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='policies.policy')),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('result', models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='made_by', to='policies.policy')),
                ('version', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='datasets.version')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['workspace', '-id'], name='run_newest'), models.Index(fields=['workspace', 'name', 'id'], name='run_by_name'), models.Index(condition=models.Q(('state__in', ['queued', 'starting', 'running', 'cancelling'])), fields=['leased_until'], name='run_leases')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('state', 'finished'), _negated=True), ('finished_at__isnull', False), _connector='OR'), name='finished_run_has_its_time')],
            },
        ),
        migrations.CreateModel(
            name='Metric',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('step', models.PositiveIntegerField()),
                ('values', models.JSONField()),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='metrics', to='training.run')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run', 'step'), name='one_metric_row_per_step')],
            },
        ),
        migrations.CreateModel(
            name='EpisodeBatch',
            fields=[
                ('id', models.UUIDField(editable=False, help_text='Id assigned by the trainer.', primary_key=True, serialize=False)),
                ('moment', models.CharField(blank=True, help_text='The point in the run whose weights act: “step 3”, “evaluation”.', max_length=100)),
                ('address', models.CharField(blank=True, help_text='URL of the server of these weights. Contains a secret.', max_length=500)),
                ('lease_seconds', models.PositiveIntegerField(help_text='A runner that sends nothing for this long loses its episode.')),
                ('most_calls', models.PositiveIntegerField(help_text='Maximum calls in one episode.')),
                ('deadline_seconds', models.PositiveIntegerField(help_text="For rollouts, counted from the first lease: the batch then ends with the episodes played so far. A training run's trainer has its own deadline.", null=True)),
                ('began_at', models.DateTimeField(help_text="When the batch's first episode was leased.", null=True)),
                ('opened_at', models.DateTimeField(auto_now_add=True)),
                ('closed_at', models.DateTimeField(null=True)),
                ('rollouts', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='episode_batch', to='trajectories.rolloutbatch')),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='episode_batches', to='training.run')),
            ],
            options={
                'indexes': [models.Index(fields=['run', 'opened_at'], name='episode_batch_of_run')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('closed_at', None)), fields=('run',), name='one_open_episode_batch_per_run'), models.CheckConstraint(condition=models.Q(models.Q(('rollouts', None), ('run__isnull', False), models.Q(('address', ''), _negated=True)), models.Q(('address', ''), ('rollouts__isnull', False), ('run', None)), _connector='OR'), name='episodes_are_of_a_run_or_of_rollouts')],
            },
        ),
        migrations.CreateModel(
            name='RunEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('kind', models.CharField(max_length=30)),
                ('text', models.TextField()),
                ('details', models.JSONField(default=dict, help_text='For an alarm: its name and the setting to try; for a change: the setting with its old and new value.')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='training.run')),
            ],
            options={
                'indexes': [models.Index(fields=['run', 'id'], name='event_of_run')],
            },
        ),
        migrations.CreateModel(
            name='RunReward',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('term', models.CharField(help_text="The term's name in the training run's curves.", max_length=60)),
                ('component', models.CharField(max_length=30)),
                ('weight', models.FloatField()),
                ('policy', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='rewarded', to='policies.policy')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rewards', to='training.run')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run', 'term'), name='one_policy_per_reward_term')],
            },
        ),
        migrations.CreateModel(
            name='Episode',
            fields=[
                ('id', models.UUIDField(editable=False, help_text='Id assigned by the trainer.', primary_key=True, serialize=False)),
                ('task', apps.common.fields.FaithfulJSONField()),
                ('environment', models.CharField(max_length=100)),
                ('attempt', models.PositiveIntegerField()),
                ('losses', models.PositiveSmallIntegerField(default=0, help_text='Sessions that ended without an outcome.')),
                ('answered_at', models.DateTimeField(help_text='When the outcome was reported to the trainer.', null=True)),
                ('session', models.OneToOneField(help_text='Session of the runner that plays the episode.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='episode', to='gateway.session')),
                ('batch', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='episodes', to='training.episodebatch')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('answered_at', None)), fields=['batch', 'id'], name='episode_to_play')],
            },
        ),
    ]
