"""URLs of the pages and the API of policies."""

from django.urls import path

from apps.policies.api import policies as policy_api
from apps.policies.api import publications as publication_api
from apps.policies.views import policies as views
from apps.policies.views import publications as publication_views

app_name = "policies"
urlpatterns = [
    path("policies/", views.policies, name="list"),
    path("policies/new/", views.register, name="new"),
    path("policies/archived/", views.archived, name="archived"),
    path("policies/<uuid:policy_id>/", views.show, name="policy"),
    path("policies/<uuid:policy_id>/archive/", views.archive, name="archive"),
    path("policies/<uuid:policy_id>/restore/", views.restore, name="restore"),
    path("policies/<uuid:policy_id>/publish/", publication_views.publish, name="publish"),
    path("policies/<uuid:policy_id>/publications/", publication_views.publications, name="publications"),
    path("publications/<uuid:publication_id>/roll-back/", publication_views.roll_back, name="roll_back_publication"),
    path("publications/<uuid:publication_id>/download/", publication_views.download_folder, name="download"),
]
api = [
    path("policies", policy_api.PoliciesView.as_view(), name="policies"),
    path("endpoints", policy_api.EndpointsView.as_view(), name="endpoints"),
    path("champions", policy_api.ChampionsView.as_view(), name="champions"),
    path("champions/roll-back", policy_api.RollBackChampionView.as_view(), name="champion_roll_back"),
    path("policies/<uuid:policy_id>", policy_api.PolicyView.as_view(), name="policy"),
    path("policies/<uuid:policy_id>/archive", policy_api.ArchivePolicyView.as_view(), name="policy_archive"),
    path("policies/<uuid:policy_id>/restore", policy_api.RestorePolicyView.as_view(), name="policy_restore"),
    path("policies/<uuid:policy_id>/publications", publication_api.PublicationsView.as_view(), name="publications"),
    path("publications/<uuid:publication_id>", publication_api.PublicationView.as_view(), name="publication"),
    path(
        "publications/<uuid:publication_id>/roll-back",
        publication_api.RollBackView.as_view(),
        name="publication_roll_back",
    ),
]
