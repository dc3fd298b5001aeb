"""URLs of the settings pages and the API of webhooks."""

from django.urls import path

from apps.webhooks import api as webhook_api
from apps.webhooks import views

app_name = "webhooks"
urlpatterns = [
    path("settings/webhooks/", views.destinations, name="list"),
    path("settings/webhooks/new/", views.new, name="new"),
    path("settings/webhooks/<uuid:webhook_id>/", views.destination, name="destination"),
    path("settings/webhooks/<uuid:webhook_id>/change/", views.change, name="change"),
    path("settings/webhooks/<uuid:webhook_id>/turn/", views.turn, name="turn"),
    path("settings/webhooks/<uuid:webhook_id>/rotate/", views.rotate, name="rotate"),
    path("settings/webhooks/<uuid:webhook_id>/test/", views.test, name="test"),
    path("settings/webhooks/<uuid:webhook_id>/remove/", views.remove, name="remove"),
    path("settings/webhooks/deliveries/<uuid:delivery_id>/resend/", views.resend, name="resend"),
]

api = [
    path("webhooks", webhook_api.WebhooksView.as_view(), name="webhooks"),
    path("webhooks/<uuid:webhook_id>", webhook_api.WebhookView.as_view(), name="webhook"),
    path("webhooks/<uuid:webhook_id>/change", webhook_api.ChangeWebhookView.as_view(), name="webhook_change"),
    path("webhooks/<uuid:webhook_id>/rotate", webhook_api.RotateWebhookView.as_view(), name="webhook_rotate"),
    path("webhooks/<uuid:webhook_id>/test", webhook_api.TestWebhookView.as_view(), name="webhook_test"),
    path("webhooks/<uuid:webhook_id>/remove", webhook_api.RemoveWebhookView.as_view(), name="webhook_remove"),
    path("webhooks/<uuid:webhook_id>/deliveries", webhook_api.DeliveriesView.as_view(), name="webhook_deliveries"),
    path("webhook-deliveries/<uuid:delivery_id>/resend", webhook_api.ResendView.as_view(), name="webhook_resend"),
]
