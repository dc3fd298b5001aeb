from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("datasets", "0005_errors_are_failures")]

    operations = [
        migrations.RemoveField("version", "error"),
    ]
