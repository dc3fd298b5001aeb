"""Websocket addresses: `/ws/<noun>/<id>/`, one consumer an app."""

from django.urls import URLPattern, URLResolver

websocket_urlpatterns: list[URLPattern | URLResolver] = []
