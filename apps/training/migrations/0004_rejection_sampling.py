from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('training', '0003_grpo_and_rloo'),
    ]

    operations = [
        migrations.AlterField(
            model_name='run',
            name='algorithm',
            field=models.CharField(choices=[('sft', 'Supervised fine-tuning'), ('reward_model', 'Reward model'), ('dpo', 'DPO'), ('kto', 'KTO'), ('process_reward_model', 'Process reward model'), ('grpo', 'GRPO'), ('rloo', 'RLOO'), ('star', 'Rejection sampling (STaR)')], max_length=20),
        ),
    ]
