from django.apps import AppConfig


class TracesConfig(AppConfig):
    name = "apps.traces"
    verbose_name = "Traces"
