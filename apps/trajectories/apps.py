from django.apps import AppConfig


class TrajectoriesConfig(AppConfig):
    name = "apps.trajectories"
    label = "trajectories"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.trajectories.imports import import_job as imports  # noqa: F401  # registers its kind of job
        from apps.trajectories.rollouts import rollout_batches as rollouts  # noqa: F401
