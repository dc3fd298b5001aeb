"""The page of jobs, and its part of the API."""

from django.urls import path

from apps.jobs import api as job_api
from apps.jobs import views

app_name = "jobs"
urlpatterns = [
    path("jobs/", views.jobs, name="list"),
    path("jobs/<slug:kind>/<uuid:job_id>/cancel/", views.cancel, name="cancel"),
    path("jobs/<slug:kind>/<uuid:job_id>/resume/", views.resume, name="resume"),
]

api = [
    path("jobs", job_api.JobsView.as_view(), name="jobs"),
    path("jobs/<slug:kind>/<uuid:job_id>/cancel", job_api.CancelJobView.as_view(), name="job_cancel"),
    path("jobs/<slug:kind>/<uuid:job_id>/resume", job_api.ResumeJobView.as_view(), name="job_resume"),
]
