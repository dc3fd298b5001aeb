"""What collapsing a page's white space changes, and what it leaves alone."""

import pytest

from tests.white_space import collapsed


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>two\n    words</p>", "<p>two words</p>"),
        ("<tr>\n  <td>1</td>\n  <td>\n 2 </td>\n</tr>", "<tr><td>1</td><td>2</td></tr>"),
        ('<a\n  href="/x"\n  class="row"\n  >x</a>', '<a href="/x" class="row">x</a>'),
        ("<b>a</b>\n  <i>b</i>", "<b>a</b> <i>b</i>"),
    ],
)
def test_line_breaks_of_a_template_disappear(html, expected):
    assert collapsed(html) == expected


@pytest.mark.parametrize(
    "html",
    [
        "<b>a</b><i>b</i><br/>",
        '<i title="two  spaces\n and a > sign" hidden>x</i>',
        "<i data-x='{\"a\":  1}'>x</i>",
        "<pre> a\n  b </pre>",
        "<textarea>\n a  b</textarea>",
        "a < b, c > d",
    ],
)
def test_what_is_shown_stays(html):
    assert collapsed(html) == html
