"""What uvicorn serves where the gateway has processes of its own: nothing but the gateway."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")

import django

django.setup(set_prefix=False)  # first: it loads the apps that the imports below need

from apps.gateway.asgi import gateway

application = gateway
