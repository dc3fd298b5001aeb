"""URLs of the pages of traces. Exporters use `asgi`."""

from django.urls import path

from apps.traces import api as trace_api
from apps.traces import views

app_name = "traces"
urlpatterns = [path("traces/", views.traces, name="list")]

api = [
    path("traces", trace_api.TracesView.as_view(), name="traces"),
    path("traces/<uuid:trace_id>", trace_api.TraceView.as_view(), name="trace"),
]
