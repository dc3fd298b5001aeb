from django.apps import AppConfig


class TransferConfig(AppConfig):
    name = "apps.transfer"
    label = "transfer"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.transfer import export_job, import_job  # noqa: F401  # register their kinds of job
