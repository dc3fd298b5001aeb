from django.apps import AppConfig


class RemovalConfig(AppConfig):
    name = "apps.removal"
    label = "removal"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.removal import removal_job  # noqa: F401  # registers its kind of job
