"""Creates the tables of policies, endpoints and publications in new databases. Older ones have run the migrations it replaces."""

import apps.common.ids
import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('policies', '0001_schema'), ('policies', '0002_locations_are_what_people_typed'), ('policies', '0003_publications_are_jobs'), ('policies', '0004_errors_are_failures'), ('policies', '0005_errors_are_told_once'), ('policies', '0006_endpoints_of_several_servers'), ('policies', '0007_publications_are_served_under_names_of_their_own'), ('policies', '0008_name_what_is_served'), ('policies', '0009_one_name_one_publication'), ('policies', '0010_words'), ('policies', '0011_lists_newest_first')]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('accounts', '__first__'),
    ]

    operations = [
        migrations.CreateModel(
            name='Endpoint',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('name', models.CharField(max_length=100)),
                ('base_url', models.URLField(max_length=300)),
                ('replicas', django.contrib.postgres.fields.ArrayField(base_field=models.URLField(max_length=300), blank=True, default=list, help_text='Additional servers with the same models as the first.', size=None)),
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
                ('location', models.CharField(blank=True, help_text="A folder under MODEL_ROOTS, a hub id, a script's name, or a model's name on its server; empty if a training run made the policy.", max_length=500)),
                ('settings', models.JSONField(default=dict, help_text='Sampling, LoRA, and script parameters.')),
                ('report', models.JSONField(default=dict, help_text="Its training run's measurements on held-out data.")),
                ('archived_at', models.DateTimeField(null=True)),
                ('base', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='descendants', to='policies.policy')),
                ('endpoint', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='policies', to='policies.endpoint')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['workspace', '-id'], name='policy_newest')],
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
                ('way', models.CharField(choices=[('folder', 'Folder'), ('adapter', 'LoRA adapter, swapped while the server runs'), ('restart', 'Whole model, the server restarts')], max_length=10)),
                ('name', models.CharField(help_text="Public name: an alias of the live publication, or a folder's name.", max_length=100)),
                ('served_name', models.CharField(blank=True, help_text="Its name on the server. Unique among publications, so that a server can't answer from another one's cache.", max_length=120)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('working', 'Being published'), ('live', 'Live'), ('replaced', 'Replaced'), ('refused', 'Refused by the canary'), ('failed', 'Failed')], default='waiting', max_length=10)),
                ('is_rollback', models.BooleanField(default=False)),
                ('location', models.CharField(blank=True, help_text='The folder that is served, or that was written.', max_length=500)),
                ('canary', models.JSONField(default=dict, help_text="The canary's verdict: distances to the trainer's policy and to the base.")),
                ('live_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(help_text='When the publication failed, or stopped answering.', null=True)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('endpoint', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='publications', to='policies.endpoint')),
                ('policy', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='publications', to='policies.policy')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['workspace', '-id'], name='publication_newest'), models.Index(condition=models.Q(('state__in', ['waiting', 'working'])), fields=['leased_until'], name='publication_leases')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('endpoint', None), ('way', 'folder')), models.Q(models.Q(('way', 'folder'), _negated=True), ('endpoint__isnull', False)), _connector='OR'), name='served_publication_has_an_endpoint'), models.UniqueConstraint(condition=models.Q(('way', 'adapter')), fields=('served_name',), name='one_publication_per_served_name'), models.UniqueConstraint(condition=models.Q(('state', 'live')), fields=('workspace', 'endpoint', 'name'), name='one_live_publication_per_name', nulls_distinct=False), models.UniqueConstraint(condition=models.Q(('state__in', ['waiting', 'working'])), fields=('workspace', 'endpoint', 'name'), name='one_publication_at_a_time_per_name', nulls_distinct=False)],
            },
        ),
    ]
