"""Unexpected query parameters never cause server errors.

URLs come from the URL conf and parameter names from the view modules, so new ones are covered.
"""

import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import cycle

import pytest
from django.test import Client
from django.urls import resolve

from apps.accounts.models import Membership
from tests.accounts.clients import body_of
from tests.addresses import ASKED, Address

pytestmark = pytest.mark.django_db

PARAMETER = re.compile(r"""(?:GET|query_params|given)\.get(?:list)?\(\s*["'](\w+)["']""")
HOSTILE = ("9" * 5000, "9" * 400, "%ED%A0%80%00")
ONLY_IN_DEVELOPMENT = {"gallery"}


def parameters(path: str) -> Iterator[str]:
    """Query parameters that the module of a URL's view reads."""
    view = resolve(path).func
    module = getattr(view, "view_class", inspect.unwrap(view)).__module__
    yield from sorted(set(PARAMETER.findall(inspect.getsource(sys.modules[module]))))


def test_no_parameter_of_an_address_is_a_fault_of_the_server(owner: Membership, addresses: list[Address]) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(owner.user)
    faults, tried, values = defaultdict(list), set(), cycle(HOSTILE)
    for address in addresses:
        if address.name in ONLY_IN_DEVELOPMENT:
            continue
        query = ASKED.get(address.name, {})
        for name in parameters(address.path):
            others = "".join(f"&{other}={value}" for other, value in query.items() if other != name)
            value = next(values)  # one each: many URLs read the same parameters in the same way
            tried.add(name)
            answer = client.get(f"{address.path}?{name}={value}{others}")
            if answer.status_code >= 500:
                faults[address.name].append((name, value[:20]))
            body_of(answer)
            if answer.status_code == 405:
                break
    assert not faults
    assert {"cursor", "from", "after", "split", "sort"} <= tried
