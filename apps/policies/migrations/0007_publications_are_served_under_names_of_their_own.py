from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("policies", "0006_endpoints_of_several_servers")]

    operations = [
        migrations.AddField(
            model_name="publication",
            name="served_name",
            field=models.CharField(
                blank=True,
                help_text="What its server calls it. No other publication has it, so a server can't answer from the cache of another one.",
                max_length=120,
            ),
        ),
        migrations.AlterField(
            model_name="publication",
            name="name",
            field=models.CharField(
                help_text="What people call it: an alias of what is live, or a folder's name.", max_length=100
            ),
        ),
    ]
