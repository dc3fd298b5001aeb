"""URLs of the pages and the API of runs and rollouts."""

from django.urls import path

from apps.training.api import episodes as episode_api
from apps.training.api import lineage as lineage_api
from apps.training.api import model_card as model_card_api
from apps.training.api import rollouts as rollout_api
from apps.training.api import runs as run_api
from apps.training.views import lineage as lineage_views
from apps.training.views import model_card as model_card_views
from apps.training.views import rollouts as rollout_views
from apps.training.views import runs as views

app_name = "training"
urlpatterns = [
    path("judgments/<uuid:judgment_id>/lineage/", lineage_views.lineage, name="lineage"),
    path("policies/<uuid:policy_id>/README.md", model_card_views.download_card, name="model_card"),
    path("runs/", views.runs, name="list"),
    path("runs/compare/", views.compare, name="compare"),
    path("runs/new/", views.new, name="new"),
    path("runs/new/settings/", views.settings_for, name="settings"),
    path("runs/new/check/", views.check, name="check"),
    path("runs/<uuid:run_id>/", views.show, name="run"),
    path("runs/<uuid:run_id>/live/", views.live, name="live"),
    path("runs/<uuid:run_id>/series/", views.series, name="series"),
    path("runs/<uuid:run_id>/tables/", views.tables, name="tables"),
    path("runs/<uuid:run_id>/rollouts/", views.open_rollouts, name="open_rollouts"),
    path("runs/<uuid:run_id>/log/", views.log, name="log"),
    path("runs/<uuid:run_id>/cancel/", views.cancel, name="cancel"),
    path("runs/<uuid:run_id>/resume/", views.resume, name="resume"),
    path("rollouts/new/", rollout_views.new, name="new_rollouts"),
    path("rollouts/new/runners/", rollout_views.new_of_runners, name="new_runner_rollouts"),
    path("rollouts/<uuid:batch_id>/", rollout_views.show, name="rollouts"),
    path("rollouts/<uuid:batch_id>/live/", rollout_views.live, name="rollouts_live"),
    path("rollouts/<uuid:batch_id>/cancel/", rollout_views.cancel, name="cancel_rollouts"),
    path("rollouts/<uuid:batch_id>/resume/", rollout_views.resume, name="resume_rollouts"),
]

api = [
    path("lineage/policies/<uuid:policy_id>", lineage_api.PolicyLineageView.as_view(), name="policy_lineage"),
    path("lineage/runs/<uuid:run_id>", lineage_api.RunLineageView.as_view(), name="run_lineage"),
    path("lineage/versions/<uuid:version_id>", lineage_api.VersionLineageView.as_view(), name="version_lineage"),
    path("lineage/judgments/<uuid:judgment_id>", lineage_api.JudgmentLineageView.as_view(), name="judgment_lineage"),
    path("lineage/items/<int:item_id>", lineage_api.ItemLineageView.as_view(), name="item_lineage"),
    path(
        "lineage/trajectories/<uuid:trajectory_id>",
        lineage_api.TrajectoryLineageView.as_view(),
        name="trajectory_lineage",
    ),
    path("policies/<uuid:policy_id>/card", model_card_api.ModelCardView.as_view(), name="policy_card"),
    path("runs", run_api.RunsView.as_view(), name="runs"),
    path("runs/<uuid:run_id>", run_api.RunView.as_view(), name="run"),
    path("runs/<uuid:run_id>/metrics", run_api.MetricsView.as_view(), name="run_metrics"),
    path("runs/<uuid:run_id>/cancel", run_api.CancelView.as_view(), name="run_cancel"),
    path("runs/<uuid:run_id>/resume", run_api.ResumeView.as_view(), name="run_resume"),
    path("runs/<uuid:run_id>/alarms/<int:alarm_id>/resume", run_api.ResumeWithView.as_view(), name="run_resume_with"),
    path("episodes/lease", episode_api.EpisodeLeaseView.as_view(), name="episode_lease"),
    path("rollouts", rollout_api.RolloutsView.as_view(), name="rollouts"),
    path("rollouts/<uuid:batch_id>", rollout_api.RolloutView.as_view(), name="rollout"),
    path("rollouts/<uuid:batch_id>/cancel", rollout_api.CancelRolloutsView.as_view(), name="rollout_cancel"),
    path("rollouts/<uuid:batch_id>/resume", rollout_api.ResumeRolloutsView.as_view(), name="rollout_resume"),
]
