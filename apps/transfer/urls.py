"""URLs of the page and the API of exports and imports of a workspace."""

from django.urls import path

from apps.transfer import api as rest
from apps.transfer import views

app_name = "transfer"
urlpatterns = [
    path("settings/transfer/", views.transfer, name="transfer"),
    path("settings/transfer/exports/", views.new_export, name="new_export"),
    path("settings/transfer/exports/<uuid:export_id>/archive/", views.archive, name="archive"),
    path("settings/transfer/exports/<uuid:export_id>/delete/", views.delete_archive, name="delete_archive"),
    # It must end in /imports/, so that the body may be as large as a file of trajectories (apps/common/uploads.py).
    path("settings/transfer/imports/", views.new_import, name="new_import"),
]

api = [
    path("workspace/exports", rest.ExportsView.as_view(), name="exports"),
    path("workspace/exports/<uuid:export_id>", rest.ExportView.as_view(), name="export"),
    path("workspace/exports/<uuid:export_id>/archive", rest.ArchiveView.as_view(), name="export_archive"),
    path("workspace/exports/<uuid:export_id>/delete", rest.DeleteArchiveView.as_view(), name="export_delete"),
    path("workspace/imports", rest.WorkspaceImportsView.as_view(), name="workspace_imports"),
    path("workspace/imports/<uuid:archive_import_id>", rest.WorkspaceImportView.as_view(), name="workspace_import"),
]
