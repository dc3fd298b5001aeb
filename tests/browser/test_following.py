"""Following an episode that is in progress: new steps come by socket or by poll, and the reader's place is kept."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from playwright.sync_api import Page, expect

from apps.accounts.models import Role
from apps.gateway import live, sessions
from apps.trajectories.models import RolloutBatch
from apps.trajectories.rollouts import live_episodes
from tests import factories
from tests.live import LiveStack
from tests.trajectories.rollouts.test_live_episodes import NAME, record

pytestmark = pytest.mark.browser


def elsewhere(act: Callable[..., Any], *args: Any) -> None:
    """Does a worker's part, in a separate thread because Playwright has an event loop in this one."""

    def done() -> None:
        act(*args)
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(done).result()


@pytest.mark.parametrize("by", ["socket", "poll"])
def test_new_steps_come_and_the_readers_place_is_kept(
    open_as: Callable[..., Page], live_stack: LiveStack, by: str
) -> None:
    researcher = factories.member(Role.RESEARCHER)
    policy = factories.policy(of=researcher.workspace)
    batch = RolloutBatch.objects.create(
        workspace=researcher.workspace, policy=policy, environment="office", state="running", total=1
    )
    long = "\nand more" * 12
    elsewhere(live_episodes.note, batch.pk, NAME, record(5, long=long))
    page = open_as(researcher.user)
    if by == "poll":
        page.route_web_socket("**/ws/rollouts/**", lambda socket: socket.close(code=1011))
    page.goto(f"/rollouts/{batch.pk}/")
    page.get_by_role("link", name="lamp").click()
    page.wait_for_selector("[data-following][data-ready]")
    steps, pane = page.locator("[data-steps] .step"), page.locator(".content")
    expect(steps).to_have_count(5)

    page.keyboard.press("Shift+G")
    elsewhere(live_episodes.note, batch.pk, NAME, record(7, long=long))
    expect(steps).to_have_count(7)
    assert pane.evaluate("pane => pane.scrollTop + pane.clientHeight >= pane.scrollHeight - 2")

    page.keyboard.press("g")
    page.keyboard.press("g")
    expect(page.locator("#step-1")).to_be_focused()
    elsewhere(live_episodes.note, batch.pk, NAME, record(10, long=long))
    expect(steps).to_have_count(10)
    assert pane.evaluate("pane => pane.scrollTop") == 0
    page.get_by_role("button", name="3 new steps").click()
    expect(page.locator("#step-8")).to_be_focused()

    task = factories.task(of=researcher.workspace)
    run = factories.trajectory(of=task, rollout_batch=batch, external_id="rule:lamp#0", success=True)
    elsewhere(live_episodes.end, batch.pk, NAME)
    expect(page.locator("#episode-state")).to_contain_text("success")
    expect(page.locator("#step-8")).to_be_focused()
    page.keyboard.press("o")
    page.wait_for_url(f"**/trajectories/{run.pk}/**")


def test_a_session_shows_what_tools_returned_and_the_chat_that_is_longest(
    open_as: Callable[..., Page], live_stack: LiveStack
) -> None:
    researcher = factories.member(Role.RESEARCHER)
    look = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "shelf"}'}}
    session = factories.session(of=researcher.workspace, messages=[{"role": "assistant", "tool_calls": [look]}])
    page = open_as(researcher.user)
    page.goto(f"/sessions/{session.pk}/")
    steps = page.locator("[data-steps] .step")
    expect(steps).to_have_count(1)
    expect(page.locator("[data-live-state]")).to_have_text("Live")

    first = session.calls.get()
    second = factories.call(of=session, message={"role": "assistant", "content": "It's blue."}, parent=first, number=1)
    second.messages = [{"role": "tool", "tool_call_id": "c1", "content": "a lamp and a ladder"}]
    second.save()
    elsewhere(live.notify_viewers, session.pk)
    expect(steps).to_have_count(2)
    expect(steps.first).to_contain_text("a lamp and a ladder")

    parent = None
    for number, text in enumerate(("Let me start over.", "I look again.", "It's green."), start=2):
        message = {"role": "assistant", "content": text}
        parent = factories.call(of=session, message=message, parent=parent, number=number)
    elsewhere(live.notify_viewers, session.pk)
    expect(steps).to_have_count(3)
    expect(steps.first).to_contain_text("Let me start over.")
    expect(page.get_by_text("a lamp and a ladder")).to_have_count(0)

    factories.call(of=session, message={"role": "assistant", "content": "It was green."}, parent=parent, number=9)
    elsewhere(lambda: sessions.finish_session(session=session, success=True))  # before anybody is told of the call
    expect(page.locator("#episode-state")).to_contain_text("success")
    expect(steps).to_have_count(4)


def test_an_episode_that_is_restarted_is_shown_from_its_new_beginning(
    open_as: Callable[..., Page], live_stack: LiveStack
) -> None:
    researcher = factories.member(Role.RESEARCHER)
    policy = factories.policy(of=researcher.workspace)
    batch = RolloutBatch.objects.create(
        workspace=researcher.workspace, policy=policy, environment="office", state="running", total=1
    )
    elsewhere(live_episodes.note, batch.pk, NAME, record(3))
    page = open_as(researcher.user)
    page.goto(f"/rollouts/{batch.pk}/episodes/{NAME}/")
    steps = page.locator("[data-steps] .step")
    expect(steps).to_have_count(3)
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    elsewhere(live_episodes.note, batch.pk, NAME, record(4).replace(b"shelf", b"drawer"))
    expect(steps).to_have_count(4)
    expect(steps.first).to_contain_text("drawer 0")
    expect(page.get_by_text("shelf")).to_have_count(0)
