"""Addresses of traces for people. What exporters call is in `asgi`."""

from django.urls import path

from apps.traces import views

app_name = "traces"
urlpatterns = [path("traces/", views.traces, name="list")]
