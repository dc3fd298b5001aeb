"""Error messages of all forms for invalid values."""

import pytest
from django import forms
from rest_framework import serializers

from apps.policies.models import Policy


class Everything(forms.Form):
    word = forms.CharField(min_length=2, max_length=3)
    whole = forms.IntegerField(min_value=2, max_value=5)
    number = forms.FloatField(min_value=0.5)
    choice = forms.ChoiceField(choices=[("a", "A")])
    several = forms.MultipleChoiceField(choices=[("a", "A")])
    moment = forms.DateTimeField()
    address = forms.EmailField()
    file = forms.FileField()
    own = forms.CharField(error_messages={"required": "Choose first."})


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("word", "", "This field is required."),
        ("word", "a", "Its length is 1, and it needs 2 characters. Make it longer."),
        ("word", "abcd", "Its length is 4, and 3 characters fit. Make it shorter."),
        ("whole", "two", "This isn't a whole number. Write digits only, such as 10."),
        ("whole", "1", "1 is too small. Give 2 or more."),
        ("whole", "6", "6 is too large. Give 5 or less."),
        ("number", "0.25", "0.25 is too small. Give 0.5 or more."),
        ("number", "half", "This isn't a number. Write it like 0.5."),
        ("choice", "", "Nothing is chosen. Choose one."),
        ("choice", "z", "“z” isn't one of the choices. Choose one of them."),
        ("several", [], "Nothing is chosen. Choose at least one."),
        ("several", ["z"], "“z” isn't one of the choices. Choose among them."),
        ("moment", "soon", "This isn't a date with a time. Write it like 2026-01-31 12:00."),
        ("address", "ada", "This isn't an e-mail address. Write it like ada@example.org."),
        ("file", "", "No file is given. Choose one."),
        ("own", "", "Choose first."),
    ],
)
def test_a_field_says_what_was_given_what_was_expected_and_what_to_do(field, value, words):
    assert Everything({field: value}).errors[field] == [words]


class Given(serializers.Serializer):
    word = serializers.CharField(max_length=3)
    whole = serializers.IntegerField(min_value=2, max_value=5)
    number = serializers.FloatField(max_value=0.5)
    choice = serializers.ChoiceField(choices=["a"])
    thing = serializers.UUIDField()
    several = serializers.ListField(child=serializers.UUIDField())
    is_so = serializers.BooleanField()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "This field is required."),
        ({"word": None}, "Null isn't allowed here. Give a value."),
        ({"word": ""}, "The text is empty. Give some."),
        ({"word": "abcd"}, "This is too long. Give 3 characters or fewer."),
        ({"whole": "two"}, "This isn't a whole number. Write digits only, such as 10."),
        ({"whole": 1}, "This is too small. Give 2 or more."),
        ({"number": 0.75}, "This is too large. Give 0.5 or less."),
        ({"choice": "z"}, "“z” isn't one of the choices. The schema lists them."),
        ({"thing": "z"}, "“z” isn't an id. Use one from the API's lists."),
        ({"several": "z"}, "One value is given where a list is expected. Give a list."),
        ({"is_so": "perhaps"}, "This is neither true nor false. Give one of them."),
    ],
)
def test_the_api_says_it_in_the_same_way(value, words):
    checked = Given(data=value)
    assert not checked.is_valid()
    (field,) = value or ["word"]
    assert checked.errors[field] == [words]


@pytest.mark.django_db
@pytest.mark.parametrize("kind", [forms.ModelChoiceField, forms.ModelMultipleChoiceField])
def test_what_is_not_there_any_more_is_said(kind):
    gone = "00000000-0000-0000-0000-000000000000"
    with pytest.raises(forms.ValidationError) as refused:
        kind(Policy.objects.all()).clean([gone] if kind is forms.ModelMultipleChoiceField else gone)
    assert refused.value.messages[0].startswith(f"“{gone}” isn't one of the choices, or no longer is.")
