"""URLs of the home page."""

from django.urls import path

from apps.home.views import home, start_labeling

urlpatterns = [path("", home, name="home"), path("try-labeling/", start_labeling, name="try_labeling")]
