from django.apps import AppConfig


class AnnotationConfig(AppConfig):
    name = "apps.annotation"
    label = "annotation"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.annotation.desk import jobs as desk  # noqa: F401  # registers its kind of job
        from apps.annotation.judges import jobs as judges  # noqa: F401
