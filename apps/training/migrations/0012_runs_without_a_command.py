from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('training', '0011_runners_play_rollouts'),
    ]

    operations = [
        migrations.RemoveField(
            model_name='run',
            name='command',
        ),
    ]
