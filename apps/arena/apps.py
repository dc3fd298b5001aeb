from django.apps import AppConfig


class ArenaConfig(AppConfig):
    name = "apps.arena"
    label = "arena"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.arena.recorded import comparison_of
        from apps.trajectories import referrers

        referrers.register(comparison_of)
