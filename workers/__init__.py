"""Celery workers: the bridge between stored rows and the trainer."""
