"""Creates the tables of experiments in new databases. Older ones have run the migrations it replaces."""

import apps.common.ids
import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('arena', '0001_schema'), ('arena', '0002_experiments_not_yet_decided'), ('arena', '0003_words'), ('arena', '0004_recorded_trajectories'), ('arena', '0005_lists_sort_by_name'), ('arena', '0006_live_experiments')]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('accounts', '__first__'),
        ('annotation', '0001_squashed_0013_judgments_of_users'),
        ('gateway', '0001_squashed_0010_redacted_calls'),
        ('policies', '0001_squashed_0011_lists_newest_first'),
        ('trajectories', '0001_squashed_0009_lists_sort_by_name'),
    ]

    operations = [
        migrations.CreateModel(
            name='Experiment',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('name', models.CharField(max_length=200)),
                ('environment', models.CharField(max_length=100)),
                ('recorded_a', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, help_text='Existing trajectories of policy A, if the experiment rolls out none.', size=None)),
                ('recorded_b', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None)),
                ('plan', models.JSONField(default=dict, help_text='tasks, samples, seed, overlap, rule: fixed at the start.')),
                ('state', models.CharField(choices=[('rolling_out', 'Rolling out'), ('labelling', 'Being labeled'), ('stopped', 'Decided'), ('failed', 'Failed')], default='rolling_out', max_length=12)),
                ('alike', models.JSONField(default=list, help_text='Indistinguishable pairs, counted as ties without asking anybody: [task, number of asked pairs before it].')),
                ('verdict', models.JSONField(default=dict, help_text='The figures when the experiment stopped.')),
                ('error', models.TextField(blank=True)),
                ('stopped_at', models.DateTimeField(null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('policy_a', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='policies.policy')),
                ('policy_b', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='policies.policy')),
                ('queue', models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='experiment', to='annotation.queue')),
                ('rollouts_a', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='trajectories.rolloutbatch')),
                ('rollouts_b', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='trajectories.rolloutbatch')),
                ('split', models.ForeignKey(help_text='The split whose sessions feed the experiment as they end.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='experiments', to='gateway.trafficsplit')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['workspace', '-id'], name='experiment_newest'), models.Index(fields=['workspace', 'name', 'id'], name='experiment_by_name'), models.Index(condition=models.Q(('state', 'stopped'), _negated=True), fields=['state'], name='experiment_undecided')],
                'constraints': [models.CheckConstraint(condition=models.Q(('policy_a', models.F('policy_b')), _negated=True), name='an_experiment_needs_two_policies'), models.UniqueConstraint(condition=models.Q(('state', 'labelling')), fields=('split',), name='one_live_experiment_at_a_time_per_split')],
            },
        ),
        migrations.CreateModel(
            name='LiveAttempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('side', models.PositiveSmallIntegerField(help_text='0: policy A; 1: policy B.')),
                ('is_paired', models.BooleanField(default=False, help_text='The other side has also attempted the task.')),
                ('experiment', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='live_attempts', to='arena.experiment')),
                ('task', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='trajectories.task')),
                ('trajectory', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='live_attempts', to='trajectories.trajectory')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('experiment', 'task', 'side'), name='one_live_attempt_per_task_and_side')],
            },
        ),
    ]
