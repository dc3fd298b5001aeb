"""What uvicorn serves where the gateway has processes of its own: nothing but the gateway, and traces that arrive."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")

import django

django.setup(set_prefix=False)  # first: it loads the apps that the imports below need

from apps.common import heap
from apps.gateway.asgi import gateway
from apps.traces.asgi import TracesEndpoint

application = TracesEndpoint(gateway)
heap.exempt_from_collection()
