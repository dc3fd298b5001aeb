"""All URLs: pages by app, and the API under /api/v1/."""

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, JsonResponse
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularSwaggerSplitView

from apps.accounts import urls as accounts
from apps.annotation import urls as annotation
from apps.arena import urls as arena
from apps.common.app_routes import app_routes
from apps.common.health import health
from apps.common.schema import SchemaView
from apps.datasets import urls as datasets
from apps.gateway import urls as gateway
from apps.jobs import urls as jobs
from apps.policies import urls as policies
from apps.redaction import urls as redaction
from apps.removal import urls as removal
from apps.traces import urls as traces
from apps.training import urls as training
from apps.trajectories import urls as trajectories
from apps.transfer import urls as transfer
from apps.webhooks import urls as webhooks


@login_not_required
def healthz(request: HttpRequest) -> JsonResponse:
    """Whether this web process can serve requests: 200, or 503 if the database, Valkey, or the disk prevents it."""
    is_ready, parts = health()
    status = {"status": "ready" if is_ready else "not ready", **parts}
    return JsonResponse(status, status=200 if is_ready else 503, headers={"Cache-Control": "no-store"})


@login_not_required
def healthz_live(request: HttpRequest) -> JsonResponse:
    """Whether this web process responds at all, regardless of the services it depends on: restarting it wouldn't bring those back."""
    return JsonResponse({"status": "alive"}, headers={"Cache-Control": "no-store"})


handler400 = "apps.accounts.views.errors.bad_request"
handler404 = "apps.accounts.views.errors.not_found"
handler500 = "apps.accounts.views.errors.failed"
APIS = (
    accounts,
    trajectories,
    gateway,
    traces,
    annotation,
    datasets,
    training,
    policies,
    arena,
    jobs,
    webhooks,
    redaction,
    removal,
    transfer,
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", healthz, name="healthz"),
    path("healthz/live", healthz_live, name="healthz_live"),
    app_routes("apps.home.urls"),
    app_routes("apps.accounts.urls"),
    app_routes("apps.webhooks.urls"),
    app_routes("apps.redaction.urls"),
    app_routes("apps.jobs.urls"),
    app_routes("apps.trajectories.urls"),
    app_routes("apps.gateway.urls"),
    app_routes("apps.traces.urls"),
    app_routes("apps.annotation.urls"),
    app_routes("apps.policies.urls"),
    app_routes("apps.training.urls"),
    app_routes("apps.arena.urls"),
    app_routes("apps.datasets.urls"),
    app_routes("apps.removal.urls"),
    app_routes("apps.transfer.urls"),
    path("api/v1/", include(([app_routes(app.api) for app in APIS], "v1"))),
    path(
        "api/schema/",
        login_not_required(SchemaView.as_view(api_version="v1", authentication_classes=[], permission_classes=[])),
        name="schema",
    ),
    path(
        "api/docs/",
        login_not_required(
            SpectacularSwaggerSplitView.as_view(url_name="schema", authentication_classes=[], permission_classes=[])
        ),
        name="api_docs",
    ),
]

if not settings.PRODUCTION:
    from apps.gallery import gallery

    urlpatterns.append(path("gallery/", gallery, name="gallery"))
