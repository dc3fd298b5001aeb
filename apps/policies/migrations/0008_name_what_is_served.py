from django.db import migrations
from django.db.models import CharField, F, Value
from django.db.models.functions import Cast, Concat, Right


def name_what_is_served(apps, schema_editor):
    """Whole models keep the name their server was started with; adapters get a name of their own, under which workers load them within a minute."""
    publications = apps.get_model("policies", "Publication").objects
    publications.filter(way="restart").update(served_name=F("name"))
    own = Concat(F("name"), Value("-"), Right(Cast("id", CharField()), 12), output_field=CharField())
    publications.filter(way="adapter").update(served_name=own)


class Migration(migrations.Migration):
    dependencies = [("policies", "0007_publications_are_served_under_names_of_their_own")]

    operations = [migrations.RunPython(name_what_is_served, migrations.RunPython.noop)]
