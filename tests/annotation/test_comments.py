"""Comments on trajectories: mentions, and who may read them at which time."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.api_tokens import issue_token
from apps.accounts.models import Membership, Role
from apps.annotation.comments.actions import comment_on, mentioned_in
from apps.annotation.comments.queries import comments_on, unread_mentions
from apps.annotation.desk.assignments import annotator_of, next_assignment
from apps.annotation.models import Comment, Mention
from apps.trajectories.models import Trajectory
from tests import factories
from tests.accounts.clients import as_
from tests.annotation import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher() -> Membership:
    return factories.member(Role.RESEARCHER)


def person(role: Role, of: Membership, name: str) -> Membership:
    member = factories.member(role, of=of.workspace)
    member.user.name = name
    member.user.save()
    return member


def run_of(member: Membership) -> Trajectory:
    return factories.trajectory(of=factories.task(of=member.workspace))


def unread(member: Membership) -> list[str]:
    return [mention.comment.text for mention in unread_mentions(member)]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("@Ann Lee, look", {"Ann Lee"}),
        ("@Ann and @ben@example.org", {"Ann", "ben@example.org"}),
        ("@ann", {"Ann"}),
        ("@Annika, ann@Ann.org", set()),
        ("@Ann Lee and @Ann", {"Ann Lee", "Ann"}),
    ],
)
def test_a_comment_names_people_by_their_whole_names_or_addresses(text: str, named: set[str]) -> None:
    ann, ann_lee = (factories.user(name=name) for name in ("Ann", "Ann Lee"))
    ben = factories.user(name="Benjamin", email="ben@example.org")
    assert {user.name for user in mentioned_in(text, [ann, ann_lee, ben])} == {
        "Benjamin" if name == "ben@example.org" else name for name in named
    }


def test_a_mention_waits_on_the_home_page_until_it_is_read(researcher: Membership) -> None:
    ada = person(Role.REVIEWER, researcher, "Ada Byron")
    run = run_of(researcher)
    as_(researcher).post(reverse("annotation:comment", args=[run.pk]), {"text": "Odd end. @Ada Byron?"})
    assert "Odd end." in as_(ada).get(reverse("home")).content.decode()
    assert "Odd end." not in as_(researcher).get(reverse("home")).content.decode()
    as_(ada).post(reverse("annotation:read_mention", args=[Mention.objects.get().pk]))
    assert "Odd end." not in as_(ada).get(reverse("home")).content.decode()
    page = as_(ada).get(reverse("annotation:comments_of", args=[run.pk]), headers={"HX-Request": "true"})
    assert "Odd end." in page.content.decode()


def test_people_of_other_workspaces_are_not_named(researcher: Membership) -> None:
    outsider = factories.member(Role.OWNER)
    comment_on(trajectory=run_of(researcher), by=researcher, text=f"@{outsider.user.email}")
    assert not Mention.objects.exists()


def test_an_annotator_reads_what_names_them_only_after_they_judged_the_trajectory(researcher: Membership) -> None:
    ada = person(Role.ANNOTATOR, researcher, "Ada")
    queue = builders.queue(of=researcher.workspace)
    item = queue.items.get()
    comment_on(trajectory=item.a, by=researcher, text="@Ada the left one wins, I'd say")
    comment_on(trajectory=item.a, by=researcher, text="for others")
    assert unread(ada) == []  # it may still be assigned to her
    assignment = next_assignment(queue=queue, annotator=annotator_of(ada))
    assert assignment is not None
    assert unread(ada) == []  # it's on her desk
    builders.judge(queue, annotator_of(ada), 2)
    assert unread(ada) == ["@Ada the left one wins, I'd say"]
    assert [comment.text for comment in comments_on(item.a, ada)] == ["@Ada the left one wins, I'd say"]


@pytest.mark.parametrize("role", [Role.REVIEWER, Role.RESEARCHER])
def test_nobody_reads_comments_on_what_lies_on_their_own_desk(researcher: Membership, role: Role) -> None:
    ada = person(role, researcher, "Ada")
    queue = builders.queue(of=researcher.workspace)
    item = queue.items.get()
    for text in ("b is better", "@Ada b is better"):
        comment_on(trajectory=item.b, by=researcher, text=text)
    own = comment_on(trajectory=item.b, by=ada, text="my own")
    assert comments_on(item.b, ada).count() == 3
    next_assignment(queue=queue, annotator=annotator_of(ada))
    assert list(comments_on(item.b, ada)) == [own]
    assert unread(ada) == []


def test_a_reviewer_who_decides_blind_reads_no_comment_before(researcher: Membership) -> None:
    ada = person(Role.REVIEWER, researcher, "Ada")
    queue = builders.queue(of=researcher.workspace, overlap=2)
    builders.judge(queue, builders.rule(of=researcher.workspace), 2)
    builders.judge(queue, builders.rule(of=researcher.workspace), -2)
    comment_on(trajectory=queue.items.get().a, by=researcher, text="@Ada a is better")
    assert unread(ada) == []
    assert not comments_on(queue.items.get().a, ada).exists()


def test_only_who_wrote_a_comment_removes_it(researcher: Membership) -> None:
    ada = person(Role.OWNER, researcher, "Ada")
    comment = comment_on(trajectory=run_of(researcher), by=researcher, text="mine")
    address = reverse("annotation:remove_comment", args=[comment.pk])
    assert as_(ada).post(address).status_code == 404
    assert as_(researcher).post(address).status_code == 302
    assert not Comment.objects.exists()


@pytest.mark.parametrize("text", ["", "  ", "x" * 5001, "x\0"])
def test_a_comment_without_text_or_with_too_much_is_refused(researcher: Membership, text: str) -> None:
    address = reverse("annotation:comment", args=[run_of(researcher).pk])
    answer = as_(researcher).post(address, {"text": text}, headers={"HX-Request": "true"})
    assert (answer.status_code, Comment.objects.exists()) == (422, False)


def test_comments_and_mentions_over_rest(researcher: Membership, client: Client) -> None:
    ada = person(Role.REVIEWER, researcher, "Ada")

    def call(member: Membership, method: str, name: str, *args: Any, **body: str) -> Any:
        token = issue_token(membership=member, name="t").secret
        sent = {"data": body, "content_type": "application/json"} if body else {}
        return getattr(client, method)(
            reverse(name, args=args), **sent, headers={"Authorization": f"Bearer {token}"}
        ).json()

    run = run_of(researcher)
    made = call(researcher, "post", "v1:trajectory_comments", run.pk, text="@Ada see step 3")
    assert (made["text"], made["by"]) == ("@Ada see step 3", researcher.user.name)
    [mention] = call(ada, "get", "v1:mentions")["results"]
    assert mention["comment"]["id"] == made["id"]
    assert call(ada, "post", "v1:mention_read", mention["id"])["read_at"]
    assert call(ada, "get", "v1:mentions")["results"] == []
    assert "Only its author" in call(ada, "post", "v1:comment_remove", made["id"])["detail"]
    assert call(researcher, "post", "v1:comment_remove", made["id"])["id"] == made["id"]
    assert call(ada, "get", "v1:trajectory_comments", run.pk)["results"] == []
