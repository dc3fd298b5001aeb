from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "apps.training"
    label = "training"
    default_auto_field = "django.db.models.BigAutoField"
