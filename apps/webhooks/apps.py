"""The Django app of webhooks."""

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "apps.webhooks"
