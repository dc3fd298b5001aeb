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
    ]

    operations = [
        migrations.CreateModel(
            name='Endpoint',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('name', models.CharField(max_length=100)),
                ('base_url', models.URLField(max_length=300)),
                ('key_variable', models.CharField(blank=True, help_text='Name of the environment variable that holds the API key.', max_length=60)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('workspace', 'name'), name='one_endpoint_per_name')],
            },
        ),
        migrations.CreateModel(
            name='Policy',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('name', models.CharField(max_length=200)),
                ('kind', models.CharField(choices=[('model', 'Language model'), ('reward_model', 'Reward model'), ('process_model', 'Process reward model'), ('scripted', 'Scripted rule'), ('endpoint', 'Served model'), ('external', 'Known by name only')], max_length=20)),
                ('description', models.TextField(blank=True)),
                ('location', models.CharField(blank=True, help_text="A folder under RUNS_DIR, a hub id, the name of a script, or a server's model name.", max_length=500)),
                ('settings', models.JSONField(default=dict, help_text='Sampling, LoRA, and script parameters.')),
                ('report', models.JSONField(default=dict, help_text='What its run measured on held-out data.')),
                ('archived_at', models.DateTimeField(null=True)),
                ('base', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='descendants', to='policies.policy')),
                ('endpoint', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='policies', to='policies.endpoint')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('workspace', 'name'), name='one_policy_per_name'), models.CheckConstraint(condition=models.Q(models.Q(('kind', 'endpoint'), _negated=True), ('endpoint__isnull', False), _connector='OR'), name='served_policy_has_an_endpoint')],
            },
        ),
        migrations.CreateModel(
            name='Checkpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('step', models.PositiveIntegerField()),
                ('location', models.CharField(max_length=500)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('policy', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checkpoints', to='policies.policy')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('policy', 'step'), name='one_checkpoint_per_step')],
            },
        ),
        migrations.CreateModel(
            name='Promotion',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('environment', models.CharField(max_length=100)),
                ('reason', models.TextField()),
                ('evidence', models.JSONField(default=dict, help_text="The experiment's id, and its figures at the time of the promotion.")),
                ('is_rollback', models.BooleanField(default=False)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('policy', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='promotions', to='policies.policy')),
                ('previous', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='policies.policy')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['workspace', 'environment', '-id'], name='promotion_newest')],
            },
        ),
        migrations.CreateModel(
            name='Publication',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('way', models.CharField(choices=[('folder', 'Folder'), ('adapter', 'LoRA adapter, swapped while the server runs'), ('restart', 'Whole model, the server restarts')], max_length=10)),
                ('name', models.CharField(help_text="What one asks for: the served model's name, or the folder's.", max_length=100)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('working', 'Being published'), ('live', 'Live'), ('replaced', 'Replaced'), ('refused', 'Refused by the canary'), ('failed', 'Failed')], default='waiting', max_length=10)),
                ('is_rollback', models.BooleanField(default=False)),
                ('location', models.CharField(blank=True, help_text='The folder that is served, or that was written.', max_length=500)),
                ('canary', models.JSONField(default=dict, help_text="The canary's verdict: distances to the trainer's policy and to the base.")),
                ('error', models.TextField(blank=True)),
                ('attempt', models.PositiveIntegerField(default=0, help_text='How many times a worker has claimed the job.')),
                ('worker', models.CharField(blank=True, max_length=200)),
                ('leased_until', models.DateTimeField(help_text='While waiting: when to tell the workers again.', null=True)),
                ('live_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('endpoint', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='publications', to='policies.endpoint')),
                ('policy', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='publications', to='policies.policy')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state__in', ['waiting', 'working'])), fields=['leased_until'], name='publication_leases'), models.Index(fields=['workspace', '-id'], name='publication_newest')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'live')), fields=('workspace', 'endpoint', 'name'), name='one_live_publication_per_name', nulls_distinct=False), models.UniqueConstraint(condition=models.Q(('state__in', ['waiting', 'working'])), fields=('workspace', 'endpoint', 'name'), name='one_publication_at_a_time_per_name', nulls_distinct=False), models.CheckConstraint(condition=models.Q(models.Q(('endpoint', None), ('way', 'folder')), models.Q(models.Q(('way', 'folder'), _negated=True), ('endpoint__isnull', False)), _connector='OR'), name='served_publication_has_an_endpoint')],
            },
        ),
    ]
