"""Addresses of deletions: pages, and the API's part."""

from django.urls import path

from apps.removal import api as rest
from apps.removal import views

app_name = "removal"
urlpatterns = [
    path("delete/<slug:thing>/<uuid:target_id>/", views.confirm, name="confirm"),
    path("deletions/<uuid:removal_id>/", views.removal, name="removal"),
]

api = [
    path("deletions", rest.RemovalsView.as_view(), name="removals"),
    path("deletions/preview", rest.PreviewView.as_view(), name="removal_preview"),
    path("deletions/<uuid:removal_id>", rest.RemovalView.as_view(), name="removal"),
]
