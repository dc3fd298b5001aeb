"""URLs of trajectories, tasks, and imports: pages, and their part of the API."""

from django.urls import path

from apps.trajectories.api import imports as import_api
from apps.trajectories.api import trajectories as trajectories_api
from apps.trajectories.views import comparison, episodes, forks, lists, replay
from apps.trajectories.views import imports as import_views

app_name = "trajectories"
urlpatterns = [
    path("trajectories/", lists.trajectories, name="list"),
    path("trajectories/views/", lists.save_view, name="save_view"),
    path("trajectories/views/<uuid:view_id>/remove/", lists.remove_view, name="remove_view"),
    path("trajectories/facets/", lists.facets, name="facets"),
    path("trajectories/forks/", forks.picked_forks, name="picked_forks"),
    path("trajectories/<uuid:trajectory_id>/", replay.replay, name="detail"),
    path("trajectories/<uuid:trajectory_id>/steps/<int:number>/", replay.replay, name="step"),
    path("trajectories/<uuid:trajectory_id>/outline/", replay.outline, name="outline"),
    path("trajectories/<uuid:trajectory_id>/steps/", replay.steps, name="steps"),
    path("trajectories/<uuid:trajectory_id>/map/", replay.map_of, name="map"),
    path("trajectories/<uuid:trajectory_id>/search/", replay.search, name="search"),
    path("trajectories/<uuid:trajectory_id>/partings/", forks.partings_of, name="partings"),
    path("trajectories/<uuid:trajectory_id>/parts/<int:index>/", replay.part, name="part"),
    path("trajectories/<uuid:trajectory_id>/original/", replay.original, name="original"),
    path("trajectories/<uuid:left_id>/compare/<uuid:right_id>/", comparison.compare, name="compare"),
    path("trajectories/<uuid:left_id>/compare/<uuid:right_id>/rows/", comparison.compare_rows, name="compare_rows"),
    path("rollouts/<uuid:batch_id>/episodes/<slug:name>/", episodes.episode, name="episode"),
    path("rollouts/<uuid:batch_id>/episodes/<slug:name>/state/", episodes.episode_state, name="episode_state"),
    path("rollouts/<uuid:batch_id>/episodes/<slug:name>/steps/", episodes.episode_steps, name="episode_steps"),
    path(
        "rollouts/<uuid:batch_id>/episodes/<slug:name>/parts/<int:index>/", episodes.episode_part, name="episode_part"
    ),
    path("tasks/", lists.tasks, name="tasks"),
    path("tasks/<uuid:task_id>/", lists.task, name="task"),
    path("tasks/<uuid:task_id>/parts/", lists.task_part, name="task_part"),
    path("tasks/<uuid:task_id>/forks/", forks.task_forks, name="task_forks"),
    path("imports/", import_views.imports, name="imports"),
    path("imports/<uuid:batch_id>/", import_views.show_import, name="import"),
    path("imports/<uuid:batch_id>/progress/", import_views.import_progress, name="import_progress"),
    path("imports/<uuid:batch_id>/cancel/", import_views.cancel_import, name="cancel_import"),
    path("imports/<uuid:batch_id>/retry/", import_views.retry_import, name="retry_import"),
    path("imports/<uuid:batch_id>/take-back/", import_views.take_back_outcomes, name="take_back_outcomes"),
    path("imports/<uuid:batch_id>/rejected.<str:form>", import_views.rejected_rows, name="rejected_rows"),
]

api = [
    path("trajectories", trajectories_api.TrajectoriesView.as_view(), name="trajectories"),
    path("trajectories/<uuid:trajectory_id>", trajectories_api.TrajectoryView.as_view(), name="trajectory"),
    path("imports", import_api.ImportsView.as_view(), name="imports"),
    path("imports/<uuid:batch_id>", import_api.ImportView.as_view(), name="import"),
    path("imports/<uuid:batch_id>/cancel", import_api.CancelImportView.as_view(), name="import_cancel"),
    path("imports/<uuid:batch_id>/retry", import_api.RetryImportView.as_view(), name="import_retry"),
    path("imports/<uuid:batch_id>/rejected", import_api.RejectedRowsView.as_view(), name="import_rejected"),
]
