"""The ASGI application of separate gateway processes: only the gateway, and incoming traces."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")

import django

django.setup(set_prefix=False)  # first: it loads the apps that the imports below need

from apps.common import heap
from apps.gateway.asgi import gateway
from apps.traces.asgi import TracesEndpoint

application = TracesEndpoint(gateway)
heap.exempt_from_collection()
