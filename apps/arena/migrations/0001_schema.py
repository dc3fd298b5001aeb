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
        ('policies', '0001_schema'),
        ('trajectories', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='Experiment',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('name', models.CharField(max_length=200)),
                ('environment', models.CharField(max_length=100)),
                ('plan', models.JSONField(default=dict, help_text='tasks, samples, seed, overlap, rule: fixed at the start.')),
                ('state', models.CharField(choices=[('rolling_out', 'Rolling out'), ('labelling', 'Being labelled'), ('stopped', 'Decided'), ('failed', 'Failed')], default='rolling_out', max_length=12)),
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
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['workspace', '-id'], name='experiment_newest')],
                'constraints': [models.CheckConstraint(condition=models.Q(('policy_a', models.F('policy_b')), _negated=True), name='an_experiment_needs_two_policies')],
            },
        ),
    ]
