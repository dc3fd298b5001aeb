"""Websocket addresses: `/ws/<noun>/<id>/`, with one consumer per app."""

from django.urls import URLPattern, URLResolver, path, re_path

from apps.common.live import NoSuchSocket
from apps.datasets.live import VersionConsumer
from apps.gateway.live import SessionConsumer
from apps.training.live import RolloutsConsumer, RunConsumer
from apps.trajectories.imports.live import ImportConsumer
from apps.trajectories.rollouts.live_episodes import EpisodeConsumer

websocket_urlpatterns: list[URLPattern | URLResolver] = [
    path("ws/imports/<uuid:batch_id>/", ImportConsumer.as_asgi()),
    path("ws/versions/<uuid:version_id>/", VersionConsumer.as_asgi()),
    path("ws/runs/<uuid:run_id>/", RunConsumer.as_asgi()),
    path("ws/rollouts/<uuid:batch_id>/", RolloutsConsumer.as_asgi()),
    path("ws/rollouts/<uuid:batch_id>/episodes/<slug:name>/", EpisodeConsumer.as_asgi()),
    path("ws/sessions/<uuid:session_id>/", SessionConsumer.as_asgi()),
    re_path(r"", NoSuchSocket.as_asgi()),
]
