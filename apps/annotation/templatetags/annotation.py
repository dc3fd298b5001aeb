"""Template tags and filters that describe judgments."""

from django import template

from apps.annotation import phrases
from apps.annotation.kinds import kind_of
from apps.annotation.kinds.pair_view import Row
from apps.annotation.models import Item, Judgment, Queue
from apps.common.compiled_templates import render_macro
from apps.common.markup import Markup

register = template.Library()
for phrase in (
    phrases.judgment_text,
    phrases.judgment_text_on,
    phrases.known_answer,
    phrases.decision,
    phrases.in_review,
    phrases.rationale_in_review,
    phrases.decided,
    phrases.other_side,
):
    register.filter(phrase)


@register.filter
def of_item(judgments: dict[int, list[Judgment]], item: Item) -> list[Judgment]:
    return judgments.get(item.pk, [])


@register.filter
def takes_models(queue: Queue) -> bool:
    """Whether models can be added as judges of this queue."""
    return kind_of(queue).takes_models


@register.simple_tag
def pair_rows(rows: list[Row]) -> Markup:
    """Rendered rows of two trajectories side by side."""
    return render_macro("annotation/pair_rows.jinja", "rows", rows)
