"""Pages of experiments."""

from django.urls import path

from apps.arena import views

app_name = "arena"
urlpatterns = [
    path("experiments/", views.experiments, name="list"),
    path("experiments/new/", views.new_experiment, name="new"),
    path("experiments/<uuid:experiment_id>/", views.experiment, name="experiment"),
    path("experiments/<uuid:experiment_id>/standing/", views.experiment_standing, name="standing"),
    path("experiments/<uuid:experiment_id>/stop/", views.stop, name="stop"),
    path("experiments/<uuid:experiment_id>/promote/", views.promote, name="promote"),
    path("champions/<str:environment>/roll-back/", views.roll_back, name="roll_back"),
]
