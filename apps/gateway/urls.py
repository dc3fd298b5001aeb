"""URLs of sessions and traffic splits: pages, and their part of the API. The agents' endpoints are in `asgi`."""

from django.urls import path

from apps.gateway.api import feedback as feedback_api
from apps.gateway.api import sessions as session_api
from apps.gateway.api import splits as split_api
from apps.gateway.api import usage as usage_api
from apps.gateway.views import feedback_keys as key_views
from apps.gateway.views import sessions as views
from apps.gateway.views import splits as split_views
from apps.gateway.views import usage as usage_views

app_name = "gateway"
urlpatterns = [
    path("sessions/", views.sessions, name="list"),
    path("settings/feedback/", key_views.feedback_keys, name="feedback_keys"),
    path("settings/feedback/new/", key_views.new_feedback_key, name="new_feedback_key"),
    path("settings/feedback/<uuid:feedback_key_id>/revoke/", key_views.revoke_feedback_key, name="revoke_feedback_key"),
    path("settings/usage/", usage_views.usage, name="usage"),
    path("settings/usage/limits/", usage_views.set_limits, name="set_limits"),
    path("settings/usage/prices/", usage_views.set_price, name="set_price"),
    path("settings/usage/prices/<uuid:price_id>/remove/", usage_views.remove_price, name="remove_price"),
    path("sessions/<uuid:session_id>/", views.session, name="session"),
    path("sessions/<uuid:session_id>/state/", views.session_state, name="session_state"),
    path("sessions/<uuid:session_id>/steps/", views.session_steps, name="session_steps"),
    path("sessions/<uuid:session_id>/parts/<int:index>/", views.session_part, name="session_part"),
    path("traffic-splits/", split_views.splits, name="splits"),
    path("traffic-splits/new/", split_views.new_split, name="new_split"),
    path("traffic-splits/<uuid:split_id>/", split_views.split, name="split"),
    path("traffic-splits/<uuid:split_id>/change/", split_views.change_split, name="change_split"),
    path("traffic-splits/<uuid:split_id>/switch/", split_views.switch_split, name="switch_split"),
    path("traffic-splits/<uuid:split_id>/remove/", split_views.remove_split, name="remove_split"),
]

api = [
    path("feedback", feedback_api.FeedbackView.as_view(), name="feedback"),
    path("feedback-keys", feedback_api.FeedbackKeysView.as_view(), name="feedback_keys"),
    path(
        "feedback-keys/<uuid:feedback_key_id>/revoke",
        feedback_api.RevokeFeedbackKeyView.as_view(),
        name="feedback_key_revoke",
    ),
    path("prices", usage_api.PricesView.as_view(), name="prices"),
    path("prices/<uuid:price_id>/remove", usage_api.RemovePriceView.as_view(), name="price_remove"),
    path("usage-limits", usage_api.UsageLimitsView.as_view(), name="usage_limits"),
    path("sessions", session_api.SessionsView.as_view(), name="sessions"),
    path("sessions/<uuid:session_id>", session_api.SessionView.as_view(), name="session"),
    path("sessions/<uuid:session_id>/events", session_api.EventsView.as_view(), name="session_events"),
    path("sessions/<uuid:session_id>/finish", session_api.FinishView.as_view(), name="session_finish"),
    path("sessions/<uuid:session_id>/renew", session_api.RenewView.as_view(), name="session_renew"),
    path("sessions/<uuid:session_id>/abandon", session_api.AbandonView.as_view(), name="session_abandon"),
    path("sessions/<uuid:session_id>/trace", session_api.TraceView.as_view(), name="session_trace"),
    path("traffic-splits", split_api.SplitsView.as_view(), name="traffic_splits"),
    path("traffic-splits/<uuid:split_id>", split_api.SplitView.as_view(), name="traffic_split"),
    path("traffic-splits/<uuid:split_id>/switch", split_api.SwitchView.as_view(), name="traffic_split_switch"),
    path("traffic-splits/<uuid:split_id>/remove", split_api.RemoveView.as_view(), name="traffic_split_remove"),
]
