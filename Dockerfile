# One image for web, workers, and the clock; the command in compose.yaml decides which.
FROM python:3.11-slim-bookworm

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 RETRACE_ENV=production \
    RETRACE_VAR=/var/lib/retrace HF_HOME=/var/lib/retrace/models
WORKDIR /srv/retrace

COPY requirements.txt .
RUN pip install --requirement requirements.txt

COPY manage.py ./
COPY contract contract
COPY apps apps
COPY trainer trainer
COPY workers workers
COPY templates templates
COPY static static

# collectstatic loads the production settings, which require these variables; their values aren't stored in the image.
RUN SECRET_KEY=build ALLOWED_HOSTS=build DATABASE_URL=postgresql://build/build VALKEY_URL=redis://build/0 \
    python manage.py collectstatic --no-input

RUN useradd --create-home --uid 10001 retrace && install --directory --owner retrace /var/lib/retrace
USER retrace
VOLUME /var/lib/retrace
EXPOSE 8000

# Runs behind a proxy that sets X-Forwarded-*; WEB_CONCURRENCY sets the number of processes.
CMD ["uvicorn", "apps.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--lifespan", "off", \
     "--proxy-headers", "--forwarded-allow-ips", "*", "--no-access-log", "--timeout-graceful-shutdown", "10"]
