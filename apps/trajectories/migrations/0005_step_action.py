from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("trajectories", "0004_import_policy"),
    ]

    operations = [
        migrations.AddField(
            model_name="step",
            name="action",
            field=models.BinaryField(
                default=b"",
                help_text="Digest of what it did: equal for steps that did the same.",
                max_length=16,
            ),
            preserve_default=False,
        ),
    ]
