"""Creates the tables of sessions, calls, splits, and keys in new databases. Older ones have run the migrations it replaces."""

import apps.common.fields
import apps.common.ids
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('gateway', '0001_schema'), ('gateway', '0002_named_sessions'), ('gateway', '0003_budgets_and_tokens'), ('gateway', '0004_weights_in_training_act'), ('gateway', '0005_what_counts_towards_budgets'), ('gateway', '0006_traffic_splits'), ('gateway', '0007_feedback_from_users'), ('gateway', '0008_runners_play_rollouts'), ('gateway', '0009_this_installation_answers'), ('gateway', '0010_redacted_calls')]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('accounts', '__first__'),
        ('policies', '0001_squashed_0011_lists_newest_first'),
        ('trajectories', '0001_squashed_0009_lists_sort_by_name'),
    ]

    operations = [
        migrations.CreateModel(
            name='FeedbackKey',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('name', models.CharField(max_length=100)),
                ('prefix', models.CharField(max_length=16)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('revoked_at', models.DateTimeField(null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['workspace', '-id'], name='feedback_key_newest')],
            },
        ),
        migrations.CreateModel(
            name='TrafficSplit',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('name', models.CharField(help_text='The name that agents send as `model`, or as `split` when they open a session.', max_length=80)),
                ('environment', models.CharField(help_text='The environment whose champion answers if an arm is unreachable.', max_length=100)),
                ('unit', models.CharField(choices=[('session', 'Each session by itself'), ('task', 'By task'), ('unit', 'By `unit` or `user`')], default='session', help_text='What an arm is drawn for: the same unit always gets the same arm.', max_length=10)),
                ('is_on', models.BooleanField(default=True, help_text='If off, the champion answers all new sessions.')),
                ('arms_changed_at', models.DateTimeField(help_text='Since when the current arms and shares apply.')),
                ('experiment', models.UUIDField(help_text='The live experiment that new sessions take part in.', null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['workspace', '-id'], name='traffic_split_newest')],
                'constraints': [models.UniqueConstraint(fields=('workspace', 'name'), name='one_traffic_split_per_name')],
            },
        ),
        migrations.CreateModel(
            name='Session',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('training_address', models.CharField(blank=True, help_text="URL of the server of the weights in training, used instead of a policy's endpoint. Contains a secret.", max_length=500)),
                ('training_name', models.CharField(blank=True, help_text='Display name of the weights in training.', max_length=300)),
                ('served_name', models.CharField(help_text="The policy's name on its server when the session began, used for all calls.", max_length=500)),
                ('task', apps.common.fields.FaithfulJSONField(help_text='The task, as in a trajectory; {} if the first user message is the task.')),
                ('group', models.CharField(blank=True, help_text='Groups sessions of one task for comparison.', max_length=200)),
                ('attempt', models.PositiveIntegerField(help_text='Index within the group.', null=True)),
                ('agent', models.CharField(blank=True, help_text='What runs the agent.', max_length=200)),
                ('name', models.CharField(blank=True, help_text="The agent's X-Session-Id, for sessions opened by a call with an API token.", max_length=200)),
                ('is_guessed', models.BooleanField(default=False, help_text='Its calls were grouped by trace because the agent named no session.')),
                ('metadata', models.JSONField(default=dict)),
                ('max_calls', models.PositiveIntegerField(null=True)),
                ('max_tokens', models.PositiveBigIntegerField(help_text='Limit on prompt and completion tokens over all calls.', null=True)),
                ('calls_begun', models.PositiveIntegerField(default=0, help_text='Counted towards max_calls, if set; includes calls in progress and failed calls whose reply may have been computed.')),
                ('tokens_used', models.PositiveBigIntegerField(default=0, help_text="Counted towards max_tokens; estimated for replies that weren't read to their end or whose tokens the server didn't count.")),
                ('key_digest', models.CharField(max_length=64, unique=True)),
                ('key_prefix', models.CharField(max_length=16)),
                ('idle_seconds', models.PositiveIntegerField(help_text='Without a call for this long, the session is abandoned.')),
                ('expires_at', models.DateTimeField(help_text='When the session is abandoned if there is no further activity.')),
                ('state', models.CharField(choices=[('open', 'Open'), ('finished', 'Finished'), ('abandoned', 'Abandoned')], default='open', max_length=10)),
                ('ended_at', models.DateTimeField(null=True)),
                ('success', models.BooleanField(null=True)),
                ('reward', models.FloatField(null=True)),
                ('rewards', models.JSONField(default=dict, help_text='Named rewards of the whole session.')),
                ('problem', models.TextField(blank=True, help_text="Why the session couldn't become a trajectory.")),
                ('failover', models.TextField(blank=True, help_text='Why the champion answers instead of the drawn policy.')),
                ('unit_digest', models.BinaryField(help_text='Digest of the unit that the arm was drawn for.', max_length=16, null=True)),
                ('sampling', models.JSONField(default=dict, help_text="The policy's sampling settings, applied to all calls.")),
                ('experiment', models.UUIDField(help_text='The live experiment that the session takes part in.', null=True)),
                ('is_fed', models.BooleanField(default=False, help_text='The live experiment has processed the session.')),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('drawn', models.ForeignKey(db_index=False, help_text='Policy of the arm drawn from the split.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='policies.policy')),
                ('endpoint', models.ForeignKey(help_text="Endpoint that serves the policy; null: this installation's server of small models.", null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='policies.endpoint')),
                ('policy', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='sessions', to='policies.policy')),
                ('rollout_batch', models.ForeignKey(db_index=False, help_text='The batch of rollouts whose episode a runner plays in this session.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='sessions', to='trajectories.rolloutbatch')),
                ('token', models.ForeignKey(help_text='The API token that opened the session.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='accounts.apitoken')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
                ('split', models.ForeignKey(db_index=False, help_text='The traffic split through which the session was opened.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='sessions', to='gateway.trafficsplit')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('split__isnull', False)), fields=['split', '-id'], name='session_by_split'), models.Index(condition=models.Q(('experiment__isnull', False), ('is_fed', False), models.Q(('state', 'open'), _negated=True)), fields=['experiment', 'id'], name='session_to_feed'), models.Index(condition=models.Q(('rollout_batch__isnull', False)), fields=['rollout_batch'], name='session_of_rollouts'), models.Index(fields=['workspace', '-id'], name='session_newest'), models.Index(condition=models.Q(('name', ''), _negated=True), fields=['workspace', 'name'], name='session_by_name'), models.Index(condition=models.Q(('state', 'open')), fields=['expires_at'], name='session_idle'), models.Index(condition=models.Q(('group', ''), _negated=True), fields=['workspace', 'group'], name='session_by_group')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state', 'open'), ('ended_at__isnull', False), _connector='OR'), name='ended_session_has_a_time'), models.CheckConstraint(condition=models.Q(('state', 'finished'), models.Q(('reward', None), ('success', None)), _connector='OR'), name='only_finished_sessions_have_outcomes'), models.CheckConstraint(condition=models.Q(models.Q(('policy__isnull', False), ('training_address', '')), models.Q(('endpoint', None), ('policy', None), models.Q(('training_address', ''), _negated=True)), _connector='OR'), name='a_policy_or_weights_in_training_act'), models.UniqueConstraint(condition=models.Q(models.Q(('name', ''), _negated=True), ('split', None), ('state', 'open')), fields=('workspace', 'policy', 'name'), name='one_open_session_per_name'), models.UniqueConstraint(condition=models.Q(models.Q(('name', ''), _negated=True), ('state', 'open')), fields=('split', 'name'), name='one_open_session_per_split_and_name'), models.CheckConstraint(condition=models.Q(('split__isnull', False), models.Q(('drawn', None), ('failover', '')), _connector='OR'), name='a_split_draws_arms')],
            },
        ),
        migrations.CreateModel(
            name='Call',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('join', models.CharField(blank=True, choices=[('', 'Begins anew'), ('tokens', 'Its prompt begins with exactly the tokens of the call before'), ('messages', 'It repeats the messages of the call before, in other tokens')], max_length=10)),
                ('status', models.CharField(choices=[('ok', 'Answered'), ('failed', 'Failed'), ('cancelled', 'Cancelled by the agent')], max_length=10)),
                ('is_retry', models.BooleanField(default=False, help_text="The agent's library resent the request.")),
                ('request', apps.common.fields.FaithfulJSONField(help_text='What the agent asked for, but for messages and tools.')),
                ('messages', apps.common.fields.FaithfulJSONField(help_text='Messages added to those of the parent call.')),
                ('tools', apps.common.fields.FaithfulJSONField(help_text='Tools offered; null: the same as in the parent call.', null=True)),
                ('reply', apps.common.fields.FaithfulJSONField(help_text='What the agent got: a chat completion.', null=True)),
                ('error', models.TextField(blank=True)),
                ('http_status', models.PositiveSmallIntegerField(help_text='As sent to the agent.')),
                ('prompt_tokens', models.PositiveIntegerField(null=True)),
                ('completion_tokens', models.PositiveIntegerField(null=True)),
                ('prompt_ids', models.BinaryField(help_text='int32: token ids of the prompt that follow those of the parent call.', null=True)),
                ('sampled_ids', models.BinaryField(help_text='int32: token ids sampled by the policy.', null=True)),
                ('logprobs', models.BinaryField(help_text='float32: log-probabilities of the sampled tokens, in nats.', null=True)),
                ('is_redacted', models.BooleanField(default=False, help_text="Part of its messages, or of an earlier call's that it continues, was redacted before storage.")),
                ('untrainable', models.CharField(blank=True, help_text="Why the call can't be used for training.", max_length=200)),
                ('body_digest', models.BinaryField(help_text='Digest of the request, to detect retries.', max_length=16)),
                ('tools_digest', models.BinaryField(help_text='Digest of the tools offered.', max_length=16)),
                ('chat_digest', models.BinaryField(help_text='Digest of the messages including the reply, to detect calls that continue this one.', max_length=16)),
                ('sequence_length', models.PositiveIntegerField(help_text='Number of tokens of prompt and reply.', null=True)),
                ('sequence_digest', models.BinaryField(help_text='Digest of the tokens of prompt and reply.', max_length=16, null=True)),
                ('seconds', models.FloatField(help_text='Time from the request to the end of the reply.')),
                ('first_seconds', models.FloatField(help_text='Time from the request to the first chunk of a streamed reply.', null=True)),
                ('began_at', models.DateTimeField()),
                ('parent', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='children', to='gateway.call')),
                ('session', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='calls', to='gateway.session')),
            ],
            options={
                'indexes': [models.Index(fields=['session', 'id'], name='call_by_session')],
                'constraints': [models.CheckConstraint(condition=models.Q(('parent', models.F('id')), _negated=True), name='call_is_not_its_own_parent')],
            },
        ),
        migrations.CreateModel(
            name='Path',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('is_main', models.BooleanField(help_text="The longest path, whose trajectory gets the session's outcome.")),
                ('leaf', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='gateway.call')),
                ('trajectory', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='session_path', to='trajectories.trajectory')),
                ('session', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='paths', to='gateway.session')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('session', 'leaf'), name='one_path_per_leaf'), models.UniqueConstraint(condition=models.Q(('is_main', True)), fields=('session',), name='one_main_path_per_session')],
            },
        ),
        migrations.CreateModel(
            name='Feedback',
            fields=[
                ('id', models.UUIDField(default=apps.common.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('thumb', models.SmallIntegerField(help_text='+1 up, −1 down.', null=True)),
                ('comment', models.TextField(blank=True)),
                ('edited', models.TextField(blank=True, help_text='What the agent should have answered.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('judged_at', models.DateTimeField(help_text='When it became a judgment, or was found not to become one.', null=True)),
                ('call', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='gateway.call')),
                ('key', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='gateway.feedbackkey')),
                ('session', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='feedback', to='gateway.session')),
            ],
            options={
                'indexes': [models.Index(fields=['session', '-id'], name='feedback_of_session'), models.Index(condition=models.Q(('judged_at', None)), fields=['id'], name='feedback_to_be_judged')],
                'constraints': [models.CheckConstraint(condition=models.Q(('thumb', None), ('thumb__in', [-1, 1]), _connector='OR'), name='a_users_thumb_is_up_or_down'), models.CheckConstraint(condition=models.Q(('thumb__isnull', False), models.Q(('comment', ''), _negated=True), models.Q(('edited', ''), _negated=True), _connector='OR'), name='feedback_says_something')],
            },
        ),
        migrations.CreateModel(
            name='SessionEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('type', models.CharField(choices=[('reward', 'Reward'), ('custom', 'Custom')], max_length=10)),
                ('name', models.CharField(blank=True, max_length=100)),
                ('value', models.JSONField(null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('call', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='events', to='gateway.call')),
                ('session', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='events', to='gateway.session')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('session', 'key'), name='one_session_event_per_key')],
            },
        ),
        migrations.CreateModel(
            name='Arm',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('weight', models.PositiveSmallIntegerField()),
                ('is_canary', models.BooleanField(default=False)),
                ('policy', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='policies.policy')),
                ('split', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='arms', to='gateway.trafficsplit')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('split', 'policy'), name='one_arm_per_policy'), models.UniqueConstraint(models.F('split'), condition=models.Q(('is_canary', True)), name='one_canary_per_split'), models.CheckConstraint(condition=models.Q(models.Q(('is_canary', False), ('weight__range', (1, 1000))), models.Q(('is_canary', True), ('weight__range', (1, 50))), _connector='OR'), name='arm_has_a_weight')],
            },
        ),
    ]
