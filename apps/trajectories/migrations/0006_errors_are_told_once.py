from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("trajectories", "0005_errors_are_failures")]

    operations = [
        migrations.RemoveField("importbatch", "error"),
        migrations.RemoveField("rolloutbatch", "error"),
    ]
