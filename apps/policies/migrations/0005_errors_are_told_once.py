from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("policies", "0004_errors_are_failures")]

    operations = [
        migrations.RemoveField("publication", "error"),
    ]
