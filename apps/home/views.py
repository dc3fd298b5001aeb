"""The home pages: one for annotators, one for those who run the loop, and the suggestions for a new workspace."""

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.membership import current_membership
from apps.accounts.models import Role
from apps.accounts.navigation import links_for
from apps.common.http import HtmxRequest
from apps.home.activity import moves
from apps.home.assigned_work import mentions_of, pace_of, review_for, waiting_for
from apps.home.decision import decision_for
from apps.home.first_queue import first_queue
from apps.home.first_steps import first_steps
from apps.home.glance import stations


@require_safe
def home(request: HtmxRequest) -> HttpResponse:
    if current_membership(request.user, request.session) is None:
        return render(request, "home/no_workspace.html")
    return _loop(request) if request.member.is_researcher else _work(request)


def _work(request: HtmxRequest) -> HttpResponse:
    waiting = waiting_for(request.member)
    first = next((row for row in waiting if row.left_for_me), None)
    review = review_for(request.member) if request.member.is_reviewer else None
    context = {
        "waiting": waiting,
        "next": first,
        "review": review,
        "pace": pace_of(request.member),
        "mentions": mentions_of(request.member),
    }
    return render(request, "home/annotator.html", context)


def _loop(request: HtmxRequest) -> HttpResponse:
    urls = {link.item.app: link.url for link in links_for(request.member, None)}
    loop_stations, decision = stations(request.member), decision_for(request.member)
    is_empty = not loop_stations[0].there
    waiting = [row for row in waiting_for(request.member) if row.left_for_me]
    context = {
        "stations": [(station, urls.get(station.app, "")) for station in loop_stations],
        # An empty workspace's suggestions include its first decision.
        "decision": None if is_empty and decision and decision.url == reverse("trajectories:imports") else decision,
        "is_empty": is_empty,
        "steps": first_steps(loop_stations, to_label=waiting[0].queue if waiting else None, decision=decision),
        "moves": moves(request.member),
        "waiting": waiting,
        "mentions": mentions_of(request.member),
    }
    return render(request, "home/researcher.html", context)


@require_POST
@at_least(Role.RESEARCHER)
def start_labeling(request: HtmxRequest) -> HttpResponse:
    """Create a small queue and open its desk."""
    queue = first_queue(member=request.member)
    return redirect("annotation:desk", queue.pk)
