"""Addresses of trajectories and imports: pages, and the API's part."""

from django.urls import path

from apps.trajectories import import_api, import_views

app_name = "trajectories"
urlpatterns = [
    path("imports/", import_views.imports, name="imports"),
    path("imports/<uuid:batch_id>/", import_views.show_import, name="import"),
    path("imports/<uuid:batch_id>/progress/", import_views.import_progress, name="import_progress"),
    path("imports/<uuid:batch_id>/cancel/", import_views.cancel_import, name="cancel_import"),
    path("imports/<uuid:batch_id>/retry/", import_views.retry_import, name="retry_import"),
    path("imports/<uuid:batch_id>/rejected.<str:form>", import_views.rejected_rows, name="rejected_rows"),
]

api = [
    path("imports", import_api.ImportsView.as_view(), name="imports"),
    path("imports/<uuid:batch_id>", import_api.ImportView.as_view(), name="import"),
    path("imports/<uuid:batch_id>/rejected", import_api.RejectedRowsView.as_view(), name="import_rejected"),
]
