"""Heading outlines of pages, by which screen reader users navigate."""

import itertools
from html.parser import HTMLParser

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.annotation.kinds.questions import Question, RatingAsks
from apps.annotation.models import Queue
from apps.annotation.queues.queue_lifecycle import revise_guidelines
from apps.trajectories.rendering import markdown
from tests import factories
from tests.accounts.test_access import OWN, SEEN_FROM
from tests.addresses import ASKED, Address
from tests.annotation import builders

pytestmark = pytest.mark.django_db


ANNOTATORS = OWN | SEEN_FROM[Role.ANNOTATOR]


class Headings(HTMLParser):
    """The heading levels of a page, in document order."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[int] = []
        self._templates = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._templates += tag == "template"
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit() and not self._templates:
            self.levels.append(int(tag[1]))

    def handle_endtag(self, tag: str) -> None:
        self._templates -= tag == "template"


def levels_of(html: str) -> list[int]:
    reader = Headings()
    reader.feed(html)
    return reader.levels


def problem_of(levels: list[int]) -> str:
    """What is wrong with an outline; empty if nothing."""
    if levels.count(1) != 1 or levels[0] != 1:
        return f"does not begin with its only h1: {levels}"
    jumps = [f"h{before} to h{after}" for before, after in itertools.pairwise(levels) if after > before + 1]
    return f"jumps from {jumps[0]}" if jumps else ""


def test_what_is_wrong_with_an_outline_is_said():
    assert problem_of([1, 2, 3, 3, 2]) == ""
    assert problem_of([1, 4]) == "jumps from h1 to h4"
    assert problem_of([2, 3]).startswith("does not begin")
    assert levels_of("<h1>a</h1><template><h5>b</h5></template><hr><h2>c</h2>") == [1, 2]


def test_no_page_skips_a_level_of_headings(owner: Membership, labeler: Membership, addresses: list[Address]) -> None:
    wrong, pages = {}, 0
    for member in (owner, labeler):
        client = Client()
        client.force_login(member.user)
        for address in addresses:
            if address.path.startswith("/api/v1/") or (member == labeler and address.name not in ANNOTATORS):
                continue
            answer = client.get(address.path, ASKED.get(address.name))
            if answer.status_code != 200 or answer.streaming or b"</body>" not in answer.content:
                continue
            pages += 1
            if problem := problem_of(levels_of(answer.content.decode())):
                wrong[address.name] = problem
    wrong.pop("api_docs", None)  # drawn by its script
    assert wrong == {}
    assert pages > 60


@pytest.mark.parametrize("kind", Queue.Kind)
def test_no_desk_skips_a_level_of_headings(kind: Queue.Kind, client: Client) -> None:
    member = factories.member(Role.ANNOTATOR)
    asks = RatingAsks((Question("done", "Done?", 5),))
    queue = {
        Queue.Kind.PAIRWISE: lambda: builders.queue(of=member.workspace),
        Queue.Kind.STEPS: lambda: builders.queue_of_trajectories(of=member.workspace),
        Queue.Kind.RATING: lambda: builders.queue_of_trajectories(Queue.Kind.RATING, of=member.workspace, asks=asks),
    }[kind]()
    revise_guidelines(queue=queue, text="### Better\n\nmeans\n\n# Done", by=member.user)
    client.force_login(member.user)
    levels = levels_of(client.get(reverse("annotation:desk", args=[queue.pk])).content.decode())
    assert problem_of(levels) == ""
    assert levels.count(2) > 4  # the steps, and the dialogs


def test_headings_of_what_was_written_fit_in_where_they_are():
    html = str(markdown.render("### A\n\n# B\n\n## C\n\n###### D\n\n# E", under=2))
    assert levels_of(html) == [3, 3, 4, 5, 3]
    assert levels_of(str(markdown.render("# A\n\n## B\n\n### C\n\n#### D"))) == [4, 5, 6, 6]
