"""Migrates queues' aspects to comparison questions, and back."""

from importlib import import_module

import pytest
from django.apps import apps

from apps.annotation.kinds.questions import PairwiseAsks, comparison
from apps.annotation.models import Queue
from tests import factories

pytestmark = pytest.mark.django_db
migration = import_module("apps.annotation.migrations.0008_aspects_are_questions")


def test_aspects_become_questions_and_questions_aspects() -> None:
    aspects = {"aspects": [{"key": "safety", "name": "Safety", "points": 3}], "confidence": True}
    queue = factories.queue(asks=aspects)
    migration.to_questions(apps, None)
    queue = Queue.objects.get(pk=queue.pk)
    assert PairwiseAsks.from_json(queue.asks) == PairwiseAsks((comparison("safety", "Safety", 3),), True)
    migration.to_aspects(apps, None)
    assert Queue.objects.get(pk=queue.pk).asks == aspects
