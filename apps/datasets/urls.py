"""URLs of the pages and the API of datasets."""

from django.urls import path

from apps.datasets import views
from apps.datasets.api import DatasetDetail, DatasetList, VersionCard, VersionDetail, VersionList, VersionRows

app_name = "datasets"
urlpatterns = [
    path("datasets/", views.dataset_list, name="list"),
    path("datasets/new/", views.new_dataset, name="new"),
    path("datasets/<uuid:dataset_id>/", views.dataset, name="dataset"),
    path("datasets/<uuid:dataset_id>/freeze/", views.new_version, name="new_version"),
    path("datasets/<uuid:dataset_id>/freeze/preview/", views.preview, name="preview"),
    path("datasets/<uuid:dataset_id>/v/<int:number>/", views.version, name="version"),
    path("datasets/<uuid:dataset_id>/v/<int:number>/live/", views.version_live, name="version_live"),
    path("datasets/<uuid:dataset_id>/v/<int:number>/rows/", views.rows, name="rows"),
    path("datasets/<uuid:dataset_id>/v/<int:number>/file/", views.file, name="file"),
    path("datasets/<uuid:dataset_id>/v/<int:number>/splits.zip", views.all_splits, name="all_splits"),
    path("datasets/<uuid:dataset_id>/v/<int:number>/README.md", views.card_markdown, name="card_markdown"),
    path("datasets/<uuid:dataset_id>/v/<int:number>/verify/", views.verify, name="verify"),
]

_things = [
    ("datasets", DatasetList, "datasets"),
    ("datasets/<uuid:dataset_id>", DatasetDetail, "dataset"),
    ("datasets/<uuid:dataset_id>/versions", VersionList, "versions"),
    ("datasets/<uuid:dataset_id>/versions/<int:number>", VersionDetail, "version"),
    ("datasets/<uuid:dataset_id>/versions/<int:number>/rows", VersionRows, "rows"),
    ("datasets/<uuid:dataset_id>/versions/<int:number>/card", VersionCard, "card"),
]
# Also accepts a trailing slash, undocumented, since many clients send one.
api = [
    *(path(route, view.as_view(), name=name) for route, view, name in _things),
    *(path(f"{route}/", view.as_view(schema=None)) for route, view, _ in _things),
]
