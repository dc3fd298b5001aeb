from django.apps import AppConfig


class AnnotationConfig(AppConfig):
    name = "apps.annotation"
    label = "annotation"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.annotation.desk import continuations as desk  # noqa: F401  # registers its kind of job
        from apps.annotation.judges import enrollment as judges  # noqa: F401
        from apps.annotation.trajectory_annotators import ANNOTATORS
        from apps.trajectories import annotators

        annotators.register(ANNOTATORS)
