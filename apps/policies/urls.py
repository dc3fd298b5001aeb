"""Pages of policies, and their part of the API."""

from django.urls import path

from apps.policies import api as policy_api
from apps.policies import views

app_name = "policies"
urlpatterns = [
    path("policies/", views.policies, name="list"),
    path("policies/new/", views.register, name="new"),
    path("policies/<uuid:policy_id>/", views.show, name="policy"),
]
api = [
    path("policies", policy_api.PoliciesView.as_view(), name="policies"),
    path("policies/<uuid:policy_id>", policy_api.PolicyView.as_view(), name="policy"),
]
