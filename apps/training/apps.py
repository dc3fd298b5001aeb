from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "apps.training"
    label = "training"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.training import launch  # noqa: F401  # registers its kind of job
