"""Every address. Pages by app; the API under /api/v1/."""

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, JsonResponse
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from apps.accounts import urls as accounts
from apps.annotation import urls as annotation
from apps.arena import urls as arena
from apps.common.health import health
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
    """Whether this web process can serve: 200, or 503 where database, Valkey or disk keep it from that."""
    is_ready, parts = health()
    status = {"status": "ready" if is_ready else "not ready", **parts}
    return JsonResponse(status, status=200 if is_ready else 503, headers={"Cache-Control": "no-store"})


@login_not_required
def healthz_live(request: HttpRequest) -> JsonResponse:
    """That this web process answers, whatever it stands on: restarting it would mend nothing."""
    return JsonResponse({"status": "alive"}, headers={"Cache-Control": "no-store"})


handler400 = "apps.accounts.views.errors.bad_request"
handler404 = "apps.accounts.views.errors.not_found"
handler500 = "apps.accounts.views.errors.failed"
api: list[URLPattern | URLResolver] = [
    *accounts.api,
    *trajectories.api,
    *gateway.api,
    *traces.api,
    *annotation.api,
    *datasets.api,
    *training.api,
    *policies.api,
    *arena.api,
    *jobs.api,
    *webhooks.api,
    *redaction.api,
    *removal.api,
    *transfer.api,
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", healthz, name="healthz"),
    path("healthz/live", healthz_live, name="healthz_live"),
    path("", include("apps.home.urls")),
    path("", include("apps.accounts.urls")),
    path("", include("apps.webhooks.urls")),
    path("", include("apps.redaction.urls")),
    path("", include("apps.jobs.urls")),
    path("", include("apps.trajectories.urls")),
    path("", include("apps.gateway.urls")),
    path("", include("apps.traces.urls")),
    path("", include("apps.annotation.urls")),
    path("", include("apps.policies.urls")),
    path("", include("apps.training.urls")),
    path("", include("apps.arena.urls")),
    path("", include("apps.datasets.urls")),
    path("", include("apps.removal.urls")),
    path("", include("apps.transfer.urls")),
    path("api/v1/", include((api, "v1"))),
    path(
        "api/schema/",
        login_not_required(
            SpectacularAPIView.as_view(api_version="v1", authentication_classes=[], permission_classes=[])
        ),
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
