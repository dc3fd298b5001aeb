"""Judgements in words."""

from django import template

from apps.annotation import wording
from apps.annotation.models import Item, Judgement

register = template.Library()
for words in (wording.verdict, wording.said, wording.said_of, wording.known_answer, wording.decision):
    register.filter(words)


@register.filter
def of_item(judgements: dict[int, list[Judgement]], item: Item) -> list[Judgement]:
    return judgements.get(item.pk, [])
