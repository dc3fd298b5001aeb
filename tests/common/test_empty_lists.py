"""Empty lists."""

import pytest
from django.urls import reverse

from apps.accounts.models import Role
from tests import factories
from tests.accounts.clients import as_


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("address", "label"), [("policies:list", "Register a policy"), ("datasets:list", "New dataset")]
)
def test_an_empty_list_has_one_button_for_its_first_row(address: str, label: str) -> None:
    page = as_(factories.member(Role.RESEARCHER)).get(reverse(address)).content.decode()
    assert page.count('<a class="button primary"') == 1
    assert f'data-key="n">{label} <kbd>n</kbd></a>' in page
