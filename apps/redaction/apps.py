from django.apps import AppConfig


class RedactionConfig(AppConfig):
    name = "apps.redaction"
    verbose_name = "Redaction"
