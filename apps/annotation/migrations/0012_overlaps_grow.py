from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("annotation", "0011_margins_and_orders")]

    operations = [
        migrations.AlterField(
            model_name="item",
            name="overlap",
            field=models.PositiveSmallIntegerField(
                help_text="The queue's; of known items, more than there are people."
            ),
        ),
    ]
