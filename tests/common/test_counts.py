import pytest
from django.db import connection

from apps.accounts.models import User
from apps.home.glance import EstimatedCount, estimated_count
from tests import factories

pytestmark = pytest.mark.django_db


def test_small_counts_are_exact():
    for _ in range(3):
        factories.user(password=None)
    counted = estimated_count(User.objects.all())
    assert counted == EstimatedCount(3, exact=True)
    assert str(counted) == "3"


def test_large_counts_are_the_planners_and_say_about():
    User.objects.bulk_create(User(email=f"{n}@example.org", name="x") for n in range(300))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE accounts_user")
    counted = estimated_count(User.objects.all(), cap=100)
    assert counted == EstimatedCount(300, exact=False)
    assert str(counted) == "about 300"


def test_an_estimate_is_never_below_what_was_counted():
    User.objects.bulk_create(User(email=f"{n}@example.org", name="x") for n in range(30))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE accounts_user")
    User.objects.bulk_create(User(email=f"{n}@example.com", name="x") for n in range(30))
    assert estimated_count(User.objects.filter(email__endswith="example.com"), cap=20).number >= 21


def test_nothing_is_false():
    assert not estimated_count(User.objects.none())


def test_a_sum_is_exact_where_all_of_it_is():
    assert EstimatedCount(3, exact=True) + EstimatedCount(4, exact=True) == EstimatedCount(7, exact=True)
    assert str(EstimatedCount(3, exact=True) + EstimatedCount(20_000, exact=False)) == "about 20,003"
