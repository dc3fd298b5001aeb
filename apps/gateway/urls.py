"""Addresses of sessions: pages, and the API's part. What agents call is in `asgi`."""

from django.urls import path

from apps.gateway import views
from apps.gateway.api import sessions as session_api

app_name = "gateway"
urlpatterns = [
    path("sessions/", views.sessions, name="list"),
    path("sessions/<uuid:session_id>/", views.session, name="session"),
    path("sessions/<uuid:session_id>/state/", views.session_state, name="session_state"),
    path("sessions/<uuid:session_id>/steps/", views.session_steps, name="session_steps"),
    path("sessions/<uuid:session_id>/parts/<int:index>/", views.session_part, name="session_part"),
]

api = [
    path("sessions", session_api.SessionsView.as_view(), name="sessions"),
    path("sessions/<uuid:session_id>", session_api.SessionView.as_view(), name="session"),
    path("sessions/<uuid:session_id>/events", session_api.EventsView.as_view(), name="session_events"),
    path("sessions/<uuid:session_id>/finish", session_api.FinishView.as_view(), name="session_finish"),
    path("sessions/<uuid:session_id>/renew", session_api.RenewView.as_view(), name="session_renew"),
    path("sessions/<uuid:session_id>/abandon", session_api.AbandonView.as_view(), name="session_abandon"),
    path("sessions/<uuid:session_id>/trace", session_api.TraceView.as_view(), name="session_trace"),
]
