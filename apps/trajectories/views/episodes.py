"""Pages of an episode in progress: the steps so far, with live updates."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest
from apps.trajectories.content_responses import answer_for
from apps.trajectories.models import RolloutBatch
from apps.trajectories.rollouts import live_episodes


@require_safe
def episode(request: HtmxRequest, batch_id: UUID, name: str) -> HttpResponse:
    """The steps so far, with later ones added live. Redirects to the trajectory once the episode has ended."""
    batch, episode = _find_episode(request, batch_id, name)
    if episode.ended and (trajectory := live_episodes.trajectory_of(batch.pk, episode)):
        return redirect("trajectories:detail", trajectory.pk)
    context = {
        "batch": batch,
        "episode": episode,
        "steps": live_episodes.views_from(batch.pk, name, 0, _parts(batch, name)),
    }
    return render(request, "trajectories/episode.html", context)


@fragment_of(lambda batch_id, name, **_: reverse("trajectories:episode", args=[batch_id, name]))
@require_safe
def episode_state(request: HtmxRequest, batch_id: UUID, name: str) -> HttpResponse:
    """Progress of the episode, for pages without a websocket."""
    batch, episode = _find_episode(request, batch_id, name)
    return HttpResponse(live_episodes.state_of(batch.pk, episode))


@fragment_of(lambda batch_id, name, **_: reverse("trajectories:episode", args=[batch_id, name]))
@require_safe
def episode_steps(request: HtmxRequest, batch_id: UUID, name: str) -> HttpResponse:
    """The steps from index `from` on, opened."""
    batch, _ = _find_episode(request, batch_id, name)
    first = request.GET.get("from", "")
    if not first.isdecimal() or len(first) > 9:
        raise Http404(f"`from` is {first!r}; expected the index of a step.")
    views = live_episodes.views_from(batch.pk, name, int(first), _parts(batch, name))
    return render(request, "trajectories/_episode_steps.html", {"steps": views})


@require_safe
def episode_part(request: HtmxRequest, batch_id: UUID, name: str, index: int) -> HttpResponse:
    """The rest of long content in a step."""
    batch, _ = _find_episode(request, batch_id, name)
    steps, answer = live_episodes.steps_of(batch.pk, name)
    if index >= len(steps):
        raise Http404("There is no such step.")
    after = steps[index + 1].context if index + 1 < len(steps) else answer
    back = reverse("trajectories:episode", args=[batch.pk, name])
    return answer_for(request, steps[index], after, url=f"{_parts(batch, name)}{index}/", back=back, name=name)


def _find_episode(request: HtmxRequest, batch_id: UUID, name: str) -> tuple[RolloutBatch, live_episodes.Episode]:
    batch = get_object_or_404(RolloutBatch.objects.visible_to(request.member).select_related("policy"), pk=batch_id)
    episode = live_episodes.episode_of(batch.pk, name)
    if episode is None:
        raise Http404("This episode has ended, or never existed.")
    return batch, episode


def _parts(batch: RolloutBatch, name: str) -> str:
    """The base URL of its steps' parts, to be completed with a step's index."""
    return reverse("trajectories:episode_part", args=[batch.pk, name, 0]).removesuffix("0/")
