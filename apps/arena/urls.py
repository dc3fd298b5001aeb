"""URLs of the pages and the API of experiments."""

from django.urls import path

from apps.arena import api as experiment_api
from apps.arena import views

app_name = "arena"
urlpatterns = [
    path("experiments/", views.experiments, name="list"),
    path("experiments/new/", views.new_experiment, name="new"),
    path("experiments/new/recorded/", views.new_recorded_experiment, name="new_recorded"),
    path("experiments/new/live/", views.new_live_experiment, name="new_live"),
    path("experiments/<uuid:experiment_id>/", views.experiment, name="experiment"),
    path("experiments/<uuid:experiment_id>/standing/", views.experiment_standing, name="standing"),
    path("experiments/<uuid:experiment_id>/stop/", views.stop, name="stop"),
    path("experiments/<uuid:experiment_id>/promote/", views.promote, name="promote"),
    path("champions/<path:environment>/roll-back/", views.roll_back, name="roll_back"),
]

api = [
    path("experiments", experiment_api.ExperimentsView.as_view(), name="experiments"),
    path("experiments/<uuid:experiment_id>", experiment_api.ExperimentView.as_view(), name="experiment"),
    path("experiments/<uuid:experiment_id>/stop", experiment_api.StopView.as_view(), name="experiment_stop"),
    path("experiments/<uuid:experiment_id>/promote", experiment_api.PromoteView.as_view(), name="experiment_promote"),
]
