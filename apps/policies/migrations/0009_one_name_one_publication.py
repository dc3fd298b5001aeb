from django.db import migrations
from django.db.models import Q, UniqueConstraint


class Migration(migrations.Migration):
    dependencies = [("policies", "0008_name_what_is_served")]

    operations = [
        migrations.AddConstraint(
            model_name="publication",
            constraint=UniqueConstraint(
                fields=["served_name"], condition=Q(way="adapter"), name="one_publication_per_served_name"
            ),
        ),
    ]
