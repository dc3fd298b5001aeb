"""Converts the aspects of queues to comparing questions. Answers stay unchanged."""

from django.db import migrations


def to_questions(apps, schema_editor):
    queues = apps.get_model("annotation", "Queue")
    for queue in queues.objects.filter(asks__has_key="aspects").only("asks").iterator():
        aspects = queue.asks.pop("aspects")
        asked = [
            {"key": each["key"], "name": each["name"], "type": "comparison", "points": each.get("points", 5), "required": False}
            for each in aspects
        ]
        queue.asks = {"questions": asked, **queue.asks}
        queue.save(update_fields=["asks"])


def to_aspects(apps, schema_editor):
    queues = apps.get_model("annotation", "Queue")
    for queue in queues.objects.filter(kind="pairwise", asks__has_key="questions").only("asks").iterator():
        asked = queue.asks.pop("questions")
        aspects = [
            {"key": each["key"], "name": each["name"], "points": each.get("points", 5)}
            for each in asked
            if each.get("type") == "comparison"
        ]
        queue.asks = {"aspects": aspects, **queue.asks}
        queue.save(update_fields=["asks"])


class Migration(migrations.Migration):
    dependencies = [("annotation", "0007_questions")]
    operations = [migrations.RunPython(to_questions, to_aspects)]
