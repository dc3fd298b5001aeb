from django.apps import AppConfig


class CommonConfig(AppConfig):
    name = "apps.common"
    label = "common"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.common.encoding import encode_answers
        from apps.common.form_words import speak_plainly

        speak_plainly()
        encode_answers()
