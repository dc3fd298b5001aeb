from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AccountsConfig(AppConfig):
    name = "apps.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.accounts import recent_sign_in  # noqa: F401  # notes when somebody signs in

        # People have roles. Django's four permissions for each model would be rows that nobody reads.
        post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
