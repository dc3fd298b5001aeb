"""Compiled queries return the same as Django's own."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import models
from django.utils.timezone import now

from apps.accounts.models import Membership, Workspace
from apps.annotation.models import Assignment
from apps.common.compiled_queries import CompiledQuery, CompiledRows
from tests import factories

pytestmark = pytest.mark.django_db


def facts(instance: models.Model) -> dict[str, Any]:
    """Every loaded field, including those of joined objects."""
    columns = {name: value for name, value in vars(instance).items() if name != "_state"}
    cached = {name: facts(other) for name, other in instance._state.fields_cache.items() if other is not None}
    return columns | cached


def test_instances_are_the_very_ones_that_django_makes():
    member = factories.member()
    factories.member(of=member.workspace)
    query = CompiledQuery(Membership.objects.of, user_id=int)
    for user in (member.user_id, member.user_id, 10**9):
        expected = [facts(membership) for membership in Membership.objects.of(user)]
        assert [facts(instance) for instance in query.all(user_id=user)] == expected
    instance = query.get(user_id=member.user_id)
    assert instance.user.preferences == {}
    assert instance.pk == member.pk
    with pytest.raises(Membership.DoesNotExist):
        query.get(user_id=10**9)


def test_one_value_may_stand_in_several_places_and_times_are_values_too():
    query = CompiledQuery(
        lambda who, when: Membership.objects.filter(
            models.Q(workspace=who) | models.Q(workspace__pk=who), created_at__lt=when
        ),
        who=UUID,
        when=datetime,
    )
    member = factories.member()
    later = now() + timedelta(hours=1)
    assert query.first(who=member.workspace_id, when=later) == member
    assert query.first(who=member.workspace_id, when=later - timedelta(hours=2)) is None
    assert query.first(who=uuid4(), when=later) is None


def test_a_value_that_the_query_does_not_ask_for_is_refused():
    query = CompiledQuery(lambda pk, other: Assignment.objects.filter(pk=pk), pk=UUID, other=UUID)
    with pytest.raises(TypeError, match="other"):
        query.first(pk=uuid4(), other=uuid4())


def test_rows_are_those_of_values_list():
    member = factories.member()
    factories.member(of=member.workspace)

    def build(workspace: UUID) -> models.QuerySet[Any, Any]:
        name = Membership.objects.filter(pk=models.OuterRef("pk")).values("user__name")
        columns = ("pk", "role", "user__preferences", models.Subquery(name))
        return Membership.objects.filter(workspace=workspace).order_by("pk").values_list(*columns)

    query = CompiledRows(build, workspace=UUID)
    for workspace in (member.workspace_id, member.workspace_id, uuid4()):
        assert query.rows(workspace=workspace) == list(build(workspace))


def test_annotations_are_set_as_django_sets_them():
    member = factories.member()

    def build(workspace: UUID) -> models.QuerySet[Workspace]:
        return Workspace.objects.filter(pk=workspace).annotate(people=models.Count("memberships"))

    [workspace] = CompiledQuery(build, workspace=UUID).all(workspace=member.workspace_id)
    assert facts(workspace) == facts(build(member.workspace_id).get())
    assert vars(workspace)["people"] == 1
