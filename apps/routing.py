"""Websocket addresses: `/ws/<noun>/<id>/`, one consumer an app."""

from django.urls import URLPattern, URLResolver, path, re_path

from apps.common.live import NoSuchSocket
from apps.datasets.consumers import VersionConsumer
from apps.training.consumers import RolloutsConsumer, RunConsumer
from apps.trajectories.consumers import EpisodeConsumer
from apps.trajectories.imports.live import ImportConsumer

websocket_urlpatterns: list[URLPattern | URLResolver] = [
    path("ws/imports/<uuid:batch_id>/", ImportConsumer.as_asgi()),
    path("ws/versions/<uuid:version_id>/", VersionConsumer.as_asgi()),
    path("ws/runs/<uuid:run_id>/", RunConsumer.as_asgi()),
    path("ws/rollouts/<uuid:batch_id>/", RolloutsConsumer.as_asgi()),
    path("ws/rollouts/<uuid:batch_id>/episodes/<slug:name>/", EpisodeConsumer.as_asgi()),
    re_path(r"", NoSuchSocket.as_asgi()),
]
