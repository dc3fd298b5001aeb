from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("policies", "0006_endpoints_of_several_servers")]

    operations = [
        migrations.AddField(
            model_name="publication",
            name="served_name",
            field=models.CharField(
                blank=True,
                help_text="Its name on the server. Unique among publications, so that a server can't answer from another one's cache.",
                max_length=120,
            ),
        ),
        migrations.AlterField(
            model_name="publication",
            name="name",
            field=models.CharField(
                help_text="Public name: an alias of the live publication, or a folder's name.", max_length=100
            ),
        ),
    ]
