"""Django app of sessions and the gateway."""

from django.apps import AppConfig


class GatewayConfig(AppConfig):
    name = "apps.gateway"
