"""URLs of the settings page and the API of redaction rules."""

from django.urls import path

from apps.redaction import api as redaction_api
from apps.redaction import views

app_name = "redaction"
urlpatterns = [
    path("settings/redaction/", views.rules, name="list"),
    path("settings/redaction/new/", views.new, name="new"),
    path("settings/redaction/test/", views.test, name="test"),
    path("settings/redaction/<uuid:redaction_rule_id>/remove/", views.remove, name="remove"),
]

api = [
    path("redaction-rules", redaction_api.RulesView.as_view(), name="redaction_rules"),
    path("redaction-rules/test", redaction_api.TestView.as_view(), name="redaction_test"),
    path(
        "redaction-rules/<uuid:redaction_rule_id>/remove",
        redaction_api.RemoveView.as_view(),
        name="redaction_rule_remove",
    ),
]
