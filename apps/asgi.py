"""The ASGI application of the web processes: pages and API over HTTP, live partials over websockets, and the gateway and traces, unless a proxy routes those elsewhere."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")

import django

django.setup(set_prefix=False)  # first: it loads the apps that the imports below need

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.urls import get_resolver

from apps.accounts.credentials import is_member, is_researcher
from apps.accounts.middleware import MemberOnSocket
from apps.common import heap
from apps.common.request_threads import OneTripHandler
from apps.common.same_origin import SameOrigin
from apps.common.static_files import StaticFiles
from apps.common.uploads import LimitUploads
from apps.gateway.asgi import BesideGateway
from apps.routing import websocket_urlpatterns
from apps.traces.asgi import TracesEndpoint

pages = LimitUploads(OneTripHandler(), is_member=is_member, may_upload=is_researcher)
application = ProtocolTypeRouter(
    {
        "http": TracesEndpoint(BesideGateway(StaticFiles(pages))),
        "websocket": SameOrigin(
            AllowedHostsOriginValidator(AuthMiddlewareStack(MemberOnSocket(URLRouter(websocket_urlpatterns))))
        ),
    }
)
get_resolver().url_patterns  # noqa: B018  # imports the views
heap.exempt_from_collection()
