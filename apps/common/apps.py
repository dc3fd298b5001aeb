from django.apps import AppConfig


class CommonConfig(AppConfig):
    name = "apps.common"
    label = "common"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.common.form_messages import install_messages
        from apps.common.text_encoding import encode_answers

        install_messages()
        encode_answers()
