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
        ('datasets', '0001_schema'),
        ('policies', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('name', models.CharField(max_length=200)),
                ('algorithm', models.CharField(choices=[('sft', 'Supervised fine-tuning'), ('reward_model', 'Reward model'), ('dpo', 'DPO'), ('kto', 'KTO'), ('process_reward_model', 'Process reward model'), ('grpo', 'GRPO'), ('rloo', 'RLOO'), ('star', 'Rejection sampling (STaR)')], max_length=20)),
                ('preset', models.CharField(blank=True, max_length=20)),
                ('config', models.JSONField(default=dict, help_text="The algorithm's settings, as validated by the trainer; the worker adds model and data.")),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('starting', 'Starting'), ('running', 'Running'), ('cancelling', 'Cancelling'), ('cancelled', 'Cancelled'), ('finished', 'Finished'), ('failed', 'Failed')], default='queued', max_length=12)),
                ('attempt', models.PositiveIntegerField(default=0, help_text='How many times a worker has claimed the job.')),
                ('worker', models.CharField(blank=True, max_length=200)),
                ('process_id', models.PositiveIntegerField(help_text="The child's, on `worker`.", null=True)),
                ('leased_until', models.DateTimeField(help_text='While queued: when to tell the workers again.', null=True)),
                ('losses', models.PositiveSmallIntegerField(default=0, help_text='Workers that vanished since it was started, or last got on.')),
                ('events_seq', models.PositiveIntegerField(default=0, help_text='Sequence number of the last trainer event stored.')),
                ('events_offset', models.BigIntegerField(default=0, help_text='Byte offset in events.jsonl after that event.')),
                ('step', models.PositiveIntegerField(default=0)),
                ('total_steps', models.PositiveIntegerField(default=0)),
                ('running_since', models.DateTimeField(help_text="When this attempt's first step began.", null=True)),
                ('running_from', models.PositiveIntegerField(default=0, help_text='The step at which this attempt began.')),
                ('checkpoint_step', models.PositiveIntegerField(null=True)),
                ('device', models.CharField(blank=True, max_length=100)),
                ('parameters', models.BigIntegerField(help_text='Number of model parameters, including frozen ones.', null=True)),
                ('memory_mb', models.FloatField(help_text='Memory used by the child process at its last heartbeat.', null=True)),
                ('command', models.TextField(blank=True, help_text='The command that the worker ran, in shell syntax.')),
                ('failure', models.JSONField(default=dict, help_text='Category, message, advice, last log lines, command.')),
                ('report', models.JSONField(default=dict)),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('base', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='policies.policy')),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('result', models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='made_by', to='policies.policy')),
                ('version', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='datasets.version')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state__in', ['queued', 'starting', 'running', 'cancelling'])), fields=['leased_until'], name='run_leases'), models.Index(fields=['workspace', '-id'], name='run_newest')],
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
            name='RunEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('kind', models.CharField(max_length=30)),
                ('text', models.TextField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='training.run')),
            ],
            options={
                'indexes': [models.Index(fields=['run', 'id'], name='event_of_run')],
            },
        ),
    ]
