"""REST API of prices and usage limits."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.authentication import IsMember, RecentSignIn
from apps.accounts.models import Role
from apps.common.api import ListView, MemberView, RequestSerializer
from apps.gateway.models import Price, UsageLimits
from apps.gateway.spending import terms
from apps.gateway.spending.models import DECIMALS, LIMITS, WHOLE_DIGITS
from apps.policies.models import Endpoint, Policy

DIGITS: dict[str, Any] = {"max_digits": WHOLE_DIGITS + DECIMALS, "decimal_places": DECIMALS, "min_value": 0}
MONEY: dict[str, Any] = {"max_digits": 12, "decimal_places": 2, "min_value": 0}


class PriceSerializer(serializers.ModelSerializer[Price]):
    """Prices per million tokens, in US dollars."""

    class Meta:
        model = Price
        fields = ["id", "policy", "endpoint", "input", "cached", "output", "created_at"]
        read_only_fields = fields


class NewPriceSerializer(RequestSerializer):
    """A price to set: for a policy, or for all policies of an endpoint that have none of their own."""

    policy = serializers.UUIDField(required=False, allow_null=True, default=None)
    endpoint = serializers.UUIDField(required=False, allow_null=True, default=None)
    input = serializers.DecimalField(**DIGITS)
    cached = serializers.DecimalField(
        **DIGITS,
        required=False,
        allow_null=True,
        default=None,
        help_text="Price of cached input tokens; by default, the same as of input.",
    )
    output = serializers.DecimalField(**DIGITS)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if (attrs["policy"] is None) == (attrs["endpoint"] is None):
            raise ValidationError({"policy": ["Give a policy or an endpoint: one of the two."]})
        return attrs


class UsageLimitsSerializer(serializers.ModelSerializer[UsageLimits]):
    """Limits for all calls together, and per session. Null: unlimited."""

    class Meta:
        model = UsageLimits
        fields = list(LIMITS)
        read_only_fields = fields


class NewUsageLimitsSerializer(RequestSerializer):
    """All limits; those left out are removed."""

    def get_fields(self) -> dict[str, Any]:
        """One field per limit."""
        limits: dict[str, Any] = {"min_value": 1, "max_value": 2**31 - 1}
        optional: dict[str, Any] = {"required": False, "allow_null": True, "default": None}
        return {
            name: serializers.DecimalField(**MONEY, **optional)
            if "dollars" in name
            else serializers.IntegerField(**limits, **optional)
            for name in LIMITS
        }


class PricesView(ListView):
    """Prices of the workspace's policies."""

    permission_classes = [IsMember, RecentSignIn]
    needs = Role.OWNER

    @extend_schema(
        operation_id="prices_list", summary="List prices, newest first", responses=PriceSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Price.objects.visible_to(self.member), PriceSerializer)

    @extend_schema(
        operation_id="prices_set",
        summary="Set what a policy or an endpoint costs",
        request=NewPriceSerializer,
        responses={201: PriceSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        form = NewPriceSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        values = dict(form.validated_data)
        for name, rows in (("policy", Policy.objects), ("endpoint", Endpoint.objects)):
            if (pk := values.pop(name)) is not None:
                row = rows.visible_to(self.member).filter(pk=pk).first()
                if row is None:
                    raise ValidationError({name: [f"There is no {name} {pk} in this workspace."]})
                values[name] = row
        price = terms.set_price(workspace=self.member.workspace, by=self.member.user, **values)
        return Response(PriceSerializer(price).data, status=status.HTTP_201_CREATED)


class RemovePriceView(MemberView):
    """Removes a price."""

    permission_classes = [IsMember, RecentSignIn]
    needs = Role.OWNER

    @extend_schema(
        operation_id="prices_remove",
        summary="Remove a price: the cost of later calls is unknown",
        request=None,
        responses={200: PriceSerializer},
    )
    def post(self, request: Request, price_id: UUID) -> Response:
        rows = Price.objects.visible_to(self.member).select_related("workspace", "policy", "endpoint")
        price = get_object_or_404(rows, pk=price_id)
        answer = PriceSerializer(price).data
        terms.remove_price(price=price, by=self.member.user)
        return Response(answer)


class UsageLimitsView(MemberView):
    """The workspace's usage limits."""

    permission_classes = [IsMember, RecentSignIn]
    needs = Role.OWNER

    @extend_schema(operation_id="usage_limits_read", summary="Read the usage limits", responses=UsageLimitsSerializer)
    def get(self, request: Request) -> Response:
        limits = UsageLimits.objects.visible_to(self.member).first() or UsageLimits()
        return Response(UsageLimitsSerializer(limits).data)

    @extend_schema(
        operation_id="usage_limits_set",
        summary="Set all usage limits",
        request=NewUsageLimitsSerializer,
        responses={200: UsageLimitsSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        form = NewUsageLimitsSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        limits = terms.set_limits(workspace=self.member.workspace, by=self.member.user, limits=form.validated_data)
        return Response(UsageLimitsSerializer(limits).data)
