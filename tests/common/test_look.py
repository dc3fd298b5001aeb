"""Template tags for recurring markup."""

import pytest
from django.utils.safestring import mark_safe

from apps.common.templatetags.look import with_code


@pytest.mark.parametrize(
    ("words", "html"),
    [
        ("Run `make <it>`.", "Run <code>make &lt;it&gt;</code>."),
        ("No code & none meant", "No code &amp; none meant"),
        ("A lone ` stays", "A lone ` stays"),
        (mark_safe("<b>`as it is`</b>"), "<b>`as it is`</b>"),
    ],
)
def test_what_stands_between_backticks_is_code(words, html):
    assert with_code(words) == html
