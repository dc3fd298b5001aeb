"""URLs of the pages and the API of deletions."""

from django.urls import path

from apps.removal import api as rest
from apps.removal import views

app_name = "removal"
urlpatterns = [
    path("delete/<slug:thing>/<uuid:target_id>/", views.confirm, name="confirm"),
    path("deletions/<uuid:removal_id>/", views.removal, name="removal"),
    path("settings/retention/", views.rules, name="rules"),
    path("settings/retention/<uuid:rule_id>/turn/", views.turn_rule, name="turn_rule"),
    path("settings/retention/<uuid:rule_id>/remove/", views.remove_rule, name="remove_rule"),
]

api = [
    path("deletions", rest.RemovalsView.as_view(), name="removals"),
    path("deletions/preview", rest.PreviewView.as_view(), name="removal_preview"),
    path("retention-rules", rest.RetentionRulesView.as_view(), name="retention_rules"),
    path("retention-rules/<uuid:rule_id>", rest.RetentionRuleView.as_view(), name="retention_rule"),
    path("retention-rules/<uuid:rule_id>/change", rest.ChangeRuleView.as_view(), name="retention_rule_change"),
    path("retention-rules/<uuid:rule_id>/remove", rest.RemoveRuleView.as_view(), name="retention_rule_remove"),
    path("deletions/<uuid:removal_id>", rest.RemovalView.as_view(), name="removal"),
]
