"""All settings. They come from the environment; importing this file accesses neither disk nor network.

RETRACE_ENV is development (the default), test or production. Production refuses to start without
SECRET_KEY, ALLOWED_HOSTS and real services.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from apps.common.stack import paths
from apps.demo import sign_ins
from contract import endpoint_keys
from contract.outgoing.networks import OutgoingRules
from contract.tracking import TITLES

BASE_DIR = Path(__file__).resolve().parent.parent
ENVIRONMENT = os.environ.get("RETRACE_ENV", "development")
if ENVIRONMENT not in {"development", "test", "production"}:
    raise ImproperlyConfigured(f"RETRACE_ENV is {ENVIRONMENT!r}; expected development, test or production.")
PRODUCTION = ENVIRONMENT == "production"
DEBUG = ENVIRONMENT == "development" and os.environ.get("DEBUG", "1") == "1"


def _required(name: str, *, development: str) -> str:
    value = os.environ.get(name, "" if PRODUCTION else development)
    if not value:
        raise ImproperlyConfigured(f"{name} is not set; production needs it. See compose.yaml for an example.")
    return value


def _list(name: str, *, default: str = "") -> list[str]:
    return [part.strip() for part in os.environ.get(name, default).split(",") if part.strip()]


SECRET_KEY = _required("SECRET_KEY", development="development-only-key-that-production-refuses-to-use")
ALLOWED_HOSTS = _list(
    "ALLOWED_HOSTS",
    default="" if PRODUCTION else "localhost,127.0.0.1,[::1],testserver",
)
if PRODUCTION and not ALLOWED_HOSTS:
    raise ImproperlyConfigured("ALLOWED_HOSTS is not set; give the host names that people type, separated by commas.")
CSRF_TRUSTED_ORIGINS = _list("CSRF_TRUSTED_ORIGINS")

STACK = paths.for_base(BASE_DIR)
VAR = STACK.var
DATABASE_URL = os.environ.get("DATABASE_URL") or STACK.database_url
VALKEY_URL = os.environ.get("VALKEY_URL") or STACK.valkey_url
if PRODUCTION and not (os.environ.get("DATABASE_URL") and os.environ.get("VALKEY_URL")):
    raise ImproperlyConfigured(
        "DATABASE_URL and VALKEY_URL must be set in production; the embedded services are for one machine."
    )


LOST_HOST = {"tcp_user_timeout": 20_000, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
"""libpq's parameters (milliseconds, seconds): a statement whose host has disappeared fails after 20 s. By default, it would wait for minutes."""


def _database(url: str) -> dict[str, Any]:
    """Django's settings for postgresql://user:password@host:port/name; a socket folder may be given as ?host=/folder, and other parameters of libpq."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(f"DATABASE_URL begins with {parts.scheme!r}; expected postgresql://…")
    query = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.pop("host", None) or parts.hostname or "",
        "PORT": query.pop("port", None) or parts.port or "",
        # Under ASGI, Django would open and close a connection for each request; the pool keeps them open.
        "OPTIONS": {
            **LOST_HOST,
            **query,
            "pool": {
                "min_size": 1,
                "max_size": int(os.environ.get("DATABASE_POOL", "8")),
                "timeout": 15,
            },
        },
        "CONN_HEALTH_CHECKS": True,
        "TEST": {"NAME": os.environ.get("TEST_DATABASE_NAME")},
    }


DATABASES = {"default": _database(DATABASE_URL)}

_valkey_channels = VALKEY_URL.replace("redis+socket://", "unix://")
CACHES = {
    "default": {
        "BACKEND": "apps.common.cache.ValkeyCache",
        "LOCATION": _valkey_channels,
        "KEY_PREFIX": "cache",
        # Seconds. Without a timeout, a page would hang as long as Valkey does.
        "OPTIONS": {"socket_connect_timeout": 2, "socket_timeout": 2},
    }
}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [{"address": _valkey_channels}], "prefix": "live"},
    }
}

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django.forms",
    "channels",
    "django_htmx",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "rest_framework",
    "apps.common",
    "apps.accounts",
    "apps.webhooks",
    "apps.redaction",
    "apps.jobs",
    "apps.policies",
    "apps.trajectories",
    "apps.gateway",
    "apps.traces",
    "apps.annotation",
    "apps.datasets",
    "apps.training",
    "apps.arena",
    "apps.removal",
    "apps.transfer",
    "apps.demo",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "apps.common.csp.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "apps.common.fair_share.FairShareMiddleware",
    "apps.accounts.middleware.CurrentMembershipMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "apps.common.fragments.VaryByHtmxMiddleware",
    "apps.common.limits.TooManyTriesMiddleware",
    "apps.common.content_negotiation.CharsetMiddleware",
]
ROOT_URLCONF = "apps.urls"
ASGI_APPLICATION = "apps.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["apps.common.templatetags.nonce"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "apps.accounts.membership.member_for_templates",
                "apps.accounts.membership.disk_is_full",
            ],
        },
    }
]
# templates/django/forms holds the project's markup of forms; widgets use Django's templates.
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"
# Tones of toasts; see static/css/feedback.css.
MESSAGE_TAGS = {10: "plain", 20: "plain", 25: "good", 30: "attention", 40: "bad"}
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["apps.accounts.backends.PeopleBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
if ENVIRONMENT == "test":  # tests create hundreds of users
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Shown on the sign-in page: {"role", "email", "password"} of each demo account. Never in production.
DEMO_SIGN_INS: list[dict[str, str]] = [] if PRODUCTION else sign_ins.for_settings()
CSRF_FAILURE_VIEW = "apps.accounts.views.errors.csrf_failed"
LOGIN_URL = "accounts:sign_in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "accounts:sign_in"

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
SESSION_COOKIE_HTTPONLY = True
# How long after entering their password people can change roles, tokens, and endpoints without entering it again.
RECENT_SIGN_IN_SECONDS = 60 * int(os.environ.get("RECENT_SIGN_IN_MINUTES", "15"))
# Not in the cache, so that losing Valkey's data signs nobody out, or in again.
SESSION_ENGINE = "apps.accounts.sessions"
SECURE_SSL_REDIRECT = PRODUCTION and os.environ.get("SECURE_SSL_REDIRECT", "1") == "1"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if PRODUCTION else None
SECURE_HSTS_SECONDS = 31_536_000 if PRODUCTION else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = PRODUCTION
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 5 * 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000
IMPORT_MAX_BYTES = int(os.environ.get("IMPORT_MAX_BYTES", str(4 * 1024**3)))
IMPORT_MAX_UNPACKED_BYTES = 25 * IMPORT_MAX_BYTES
IMPORT_MAX_RECORD_BYTES = int(os.environ.get("IMPORT_MAX_RECORD_BYTES", str(128 * 1024**2)))
VERSION_MAX_BYTES = int(os.environ.get("VERSION_MAX_BYTES", str(64 * 1024**3)))

FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.TemporaryFileUploadHandler"]
_files: dict[str, Any] = {
    "BACKEND": "django.core.files.storage.FileSystemStorage",
    "OPTIONS": {"location": str(VAR / "files")},
}
if os.environ.get("S3_BUCKET"):
    _files = {
        "BACKEND": "apps.common.bucket.Bucket",
        "OPTIONS": {"bucket_name": os.environ["S3_BUCKET"]},
    }
STORAGES = {
    "default": _files,
    "staticfiles": {
        "BACKEND": "apps.common.static_files.ModuleStorage"
        if PRODUCTION
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Outside production, files change while they're served.
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = not PRODUCTION
# Run folders hold checkpoints; workers on several machines share them (a mounted disk).
RUNS_DIR = Path(os.environ.get("RUNS_DIR", str(VAR / "runs")))
# The path of the same folder on the vLLM server, if it differs.
SERVED_RUNS_DIR = os.environ.get("SERVED_RUNS_DIR", str(RUNS_DIR))
# Folders with models that people may enter as a base, such as "/models:/mnt/models". Without any: only the hub, and models trained here.
MODEL_ROOTS = [Path(root) for root in os.environ.get("MODEL_ROOTS", "").split(os.pathsep) if root]
if any(not root.is_absolute() or ".." in root.parts for root in MODEL_ROOTS):
    raise ImproperlyConfigured(
        f"MODEL_ROOTS={os.environ['MODEL_ROOTS']!r}: give absolute folders with {os.pathsep} between."
    )
# Where policies are published as folders: <workspace>/<name>/current.
PUBLISHED_DIR = Path(os.environ.get("PUBLISHED_DIR", str(VAR / "published")))

# Environments on OpenEnv servers, as in "shop=http://10.0.0.7:9000 maze=…": the web needs only the names, workers connect.
SERVED_ENVIRONMENTS = [
    pair.partition("=")[0] for pair in os.environ.get("SERVED_ENVIRONMENTS", "").split() if "=" in pair
]
# Which keys from the workers' environment may be sent to which model servers: "VLLM_API_KEY=http://vllm:8000 …". Without it, no server gets a key.
try:
    ENDPOINT_KEYS = endpoint_keys.permissions(os.environ.get("ENDPOINT_KEYS", ""))
except ValueError as _problem:
    raise ImproperlyConfigured(str(_problem)) from None
# Private networks in which model and environment servers may be. Read when a connection is made; checked here, so that an error shows at startup.
try:
    OutgoingRules.from_environment()
    OutgoingRules.for_webhooks()
except ValueError as _problem:
    raise ImproperlyConfigured(str(_problem)) from None
# Trackers that training runs may report to, such as "mlflow wandb"; the workers' environment has their addresses and keys.
TRACKERS = os.environ.get("TRACKERS", "").split()
if _unknown := set(TRACKERS) - TITLES.keys():
    raise ImproperlyConfigured(f"TRACKERS names {', '.join(sorted(_unknown))}; expected some of {', '.join(TITLES)}.")
# How the worker starts a run's child process, such as "accelerate launch --num_processes 4 -m trainer".
TRAINER_COMMAND = shlex.split(os.environ.get("TRAINER_COMMAND", "")) or [sys.executable, "-m", "trainer"]
# Limit of the child's address space, so that it fails before the machine runs out of memory; 0: no limit.
TRAINER_MEMORY_MB = int(os.environ.get("TRAINER_MEMORY_MB", "0"))
# How long a restarted vLLM server may take to load a model.
SERVER_START_SECONDS = int(os.environ.get("SERVER_START_SECONDS", "900"))
# A worker that doesn't renew its lease for this long loses its job to another worker.
WORKER_LEASE_SECONDS = int(os.environ.get("WORKER_LEASE_SECONDS", "60"))

# The gateway's base URL for agents, with its version, such as https://retrace.example.org/gateway/v1; without it, on the host of the pages.
GATEWAY_URL = os.environ.get("GATEWAY_URL", "").rstrip("/")
# The base URL of this installation's server for small models trained here (trainer/serving/local_models.py), with its version, such as
# http://models:8001/v1. Without it, policies answer sessions only if they're served elsewhere. `make run` starts one.
LOCAL_MODELS_URL = os.environ.get("LOCAL_MODELS_URL", "").rstrip("/")
LOCAL_MODELS_KEY = os.environ.get("LOCAL_MODELS_KEY", "")
LOCAL_MODELS_PARAMETERS = int(os.environ.get("LOCAL_MODELS_PARAMETERS", "1000000000"))
if LOCAL_MODELS_URL and not LOCAL_MODELS_KEY:
    raise ImproperlyConfigured(
        "LOCAL_MODELS_URL is set without LOCAL_MODELS_KEY. Give the key that the server has, too."
    )
# Deadline for a complete reply by a policy's server.
GATEWAY_DEADLINE_SECONDS = float(os.environ.get("GATEWAY_DEADLINE_SECONDS", "600"))
GATEWAY_MAX_BYTES = int(os.environ.get("GATEWAY_MAX_BYTES", str(32 * 1024**2)))
# While the database is down: "pass" lets calls of known sessions through and stores them later, "refuse" returns 503.
GATEWAY_WITHOUT_DATABASE = os.environ.get("GATEWAY_WITHOUT_DATABASE", "pass")
if GATEWAY_WITHOUT_DATABASE not in {"pass", "refuse"}:
    raise ImproperlyConfigured(f"GATEWAY_WITHOUT_DATABASE is {GATEWAY_WITHOUT_DATABASE!r}; expected pass or refuse.")
# Where calls are kept until the database is back.
GATEWAY_SPOOL_DIR = VAR / "gateway"

# Maximum size of one request to /v1/traces, both as received and unpacked.
TRACES_MAX_BYTES = int(os.environ.get("TRACES_MAX_BYTES", str(20 * 1024**2)))
# A trace whose root span hasn't ended becomes a trajectory after this long without new spans.
TRACES_REST_SECONDS = int(os.environ.get("TRACES_REST_SECONDS", "120"))
# Maximum size of one trace, and of all stored spans of a workspace, as JSON.
TRACES_MAX_TRACE_BYTES = IMPORT_MAX_RECORD_BYTES // 2
TRACES_MAX_STORED_BYTES = int(os.environ.get("TRACES_MAX_STORED_BYTES", str(16 * 1024**3)))

# Base URL of the pages for links in messages to people, such as https://retrace.example.org. Without it, messages have no links.
SITE_URL = os.environ.get("SITE_URL", "").rstrip("/")
# Without EMAIL_HOST, no e-mail is sent.
EMAIL_HOST = os.environ.get("EMAIL_HOST", "")
EMAIL_PORT = int(os.environ.get("EMAIL_PORT", "587"))
EMAIL_HOST_USER = os.environ.get("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = os.environ.get("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_TLS = EMAIL_PORT == 587
EMAIL_USE_SSL = EMAIL_PORT == 465
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = os.environ.get("EMAIL_FROM", "") or f"retrace@{EMAIL_HOST or 'localhost'}"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.accounts.authentication.BearerTokenAuthentication",
        "apps.accounts.authentication.SessionAuthentication",
    ],
    "DEFAULT_PARSER_CLASSES": [
        "apps.common.json_body.StrictJSONParser",
        "rest_framework.parsers.FormParser",
        "rest_framework.parsers.MultiPartParser",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["apps.accounts.authentication.IsMember"],
    "DEFAULT_PAGINATION_CLASS": "apps.common.pages.ApiCursorPagination",
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "apps.common.content_negotiation.LenientNegotiation",
    "DEFAULT_RENDERER_CLASSES": ["apps.common.json_answer.ApiRenderer"],
    "DEFAULT_SCHEMA_CLASS": "apps.common.openapi.ApiSchema",
    "EXCEPTION_HANDLER": "apps.common.api.answer_error",
    "URL_FORMAT_OVERRIDE": None,  # `?format=` names the format of exported rows
    "DEFAULT_THROTTLE_CLASSES": ["apps.accounts.authentication.MemberRateThrottle"],
    "DEFAULT_THROTTLE_RATES": {
        "member": os.environ.get("API_RATE", "600/min"),
        "anon": "30/min",
    },
    "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.NamespaceVersioning",
    "PAGE_SIZE": 100,
    "UNAUTHENTICATED_USER": None,
}
# Requests per minute of one token to open, renew, and end sessions, and to lease episodes: programs send these.
API_AGENT_RATE = int(os.environ.get("API_AGENT_RATE", "12000"))
SPECTACULAR_SETTINGS = {
    "TITLE": "Retrace",
    "VERSION": "1",
    "DESCRIPTION": "Trajectories in, preference datasets out.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENUM_NAME_OVERRIDES": {
        "CountOrDropEnum": ["count", "drop"],
        "KeepOrLeaveOutEnum": ["keep", "leave_out"],
        "ExperimentState": "apps.arena.models.Experiment.State",
        "DestinationKind": "apps.webhooks.models.Destination.Kind",
        "JobState": "apps.jobs.models.JobState",
        "PublicationState": "apps.policies.models.Publication.State",
        "QueueKind": "apps.annotation.models.Queue.Kind",
        "QueueState": "apps.annotation.models.Queue.State",
        "RunState": "apps.training.models.Run.State",
        "SessionState": "apps.gateway.models.Session.State",
        "VersionState": "apps.datasets.models.Version.State",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "apps.common.openapi.describe_errors",
    ],
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": os.environ.get("LOG_LEVEL", "INFO")},
    # httpx logs every successful request.
    # Requests for a foreign host, or with too large a form, are answered with the reason; a traceback for each would let strangers fill the log.
    "loggers": {
        "django.request": {"level": "ERROR"},
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        "django.security.RequestDataTooBig": {"level": "CRITICAL"},
        "django.security.TooManyFieldsSent": {"level": "CRITICAL"},
        "httpx": {"level": "WARNING"},
    },
}
