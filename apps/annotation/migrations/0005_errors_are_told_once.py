from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("annotation", "0004_errors_are_failures")]

    operations = [
        migrations.RemoveField("continuation", "error"),
        migrations.RemoveField("judge", "error"),
    ]
