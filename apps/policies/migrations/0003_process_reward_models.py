from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('policies', '0002_publications'),
    ]

    operations = [
        migrations.AlterField(
            model_name='policy',
            name='kind',
            field=models.CharField(choices=[('model', 'Language model'), ('reward_model', 'Reward model'), ('process_model', 'Process reward model'), ('scripted', 'Scripted rule'), ('endpoint', 'Served model'), ('external', 'Known by name only')], max_length=20),
        ),
    ]
