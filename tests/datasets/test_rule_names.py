"""A version's page names its rules as the form does."""

import pytest

from apps.datasets.forms import RecipeForm
from apps.datasets.recipe import CHOICES as VALUES
from apps.datasets.recipe import KINDS
from apps.datasets.rule_names import CHOICES, NAMES, rule_text


@pytest.mark.parametrize("rule", VALUES)
def test_every_value_that_a_rule_takes_has_words(rule: str):
    assert set(CHOICES[rule]) == set(VALUES[rule])
    assert rule in NAMES


def test_the_form_offers_every_kind_of_annotator():
    assert set(CHOICES["annotator_kinds"]) == set(KINDS)


@pytest.mark.parametrize("rule", CHOICES)
def test_the_form_asks_in_these_words(rule: str):
    field = RecipeForm.base_fields[rule]
    assert dict(field.choices) == CHOICES[rule]  # type: ignore[attr-defined]
    assert field.label in (NAMES[rule], None)


def test_lists_numbers_and_shares_read_as_such():
    assert rule_text("annotator_kinds", ["person", "rule"]) == "People, Rules"
    assert rule_text("minimum_strength", 2) == "clearly better"
    assert rule_text("minimum_confidence", 80) == "80 %"
    assert rule_text("minimum_margin", 1) == "1"
    assert rule_text("aggregation", "made up later") == "made up later"
