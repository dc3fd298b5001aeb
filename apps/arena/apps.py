from django.apps import AppConfig


class ArenaConfig(AppConfig):
    name = "apps.arena"
    label = "arena"
    default_auto_field = "django.db.models.BigAutoField"
