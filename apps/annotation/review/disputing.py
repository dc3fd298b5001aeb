"""Whether people contradict each other about an item, by its kind."""

from django.db.models import Count, Max, Min, Q

from apps.annotation.models import Inspection, Item, Preference, Queue, Rating


def is_disputed(item: Item) -> bool:
    """Two standing judgements of the item contradict each other."""
    if item.overlap == 1 or item.purpose != Item.Purpose.WORK:
        return False
    match item.kind:
        case Queue.Kind.PAIRWISE:
            return _prefer_different_runs(item)
        case Queue.Kind.STEPS:
            return _end_differently(item)
        case _:
            return _thumbs_differ(item)


def _prefer_different_runs(item: Item) -> bool:
    votes = Preference.objects.standing().filter(item=item).aggregate(least=Min("strength"), most=Max("strength"))
    return votes["least"] is not None and bool(votes["least"] < 0 < votes["most"])


def _end_differently(item: Item) -> bool:
    """One found an error where another found none, or they found different first errors. Who gave up says neither."""
    firm = [Inspection.Ending.FOUND_ERROR, Inspection.Ending.SOLVED]
    found = Inspection.objects.standing().filter(item=item, ending__in=firm)
    ways = found.aggregate(endings=Count("ending", distinct=True), places=Count("first_error", distinct=True))
    return bool(ways["endings"] > 1 or ways["places"] > 1)


def _thumbs_differ(item: Item) -> bool:
    thumbs = Rating.objects.standing().filter(item=item)
    return all(thumbs.aggregate(up=Count("pk", filter=Q(thumb=1)), down=Count("pk", filter=Q(thumb=-1))).values())
