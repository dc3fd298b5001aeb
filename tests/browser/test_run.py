"""A training run from its form to its policy, in the browser."""

import re
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from django.utils.timezone import now
from playwright.sync_api import expect

from apps.training.folders import folder_of
from apps.training.models import Metric, Run
from tests import factories
from tests.training.test_kept_rollouts import keep
from tests.workers.frozen_versions import freeze, office_pairs

pytestmark = pytest.mark.browser
TRAINING_MS = 150_000


@pytest.fixture
def researcher(live_stack):
    return factories.member()


def running(member, **fields):
    """A run held by a worker that doesn't exist: the test plays the worker."""
    return factories.run(
        of=member.workspace,
        state=Run.State.RUNNING,
        attempt=1,
        worker="elsewhere:1",
        leased_until=now() + timedelta(hours=1),
        running_since=now() - timedelta(seconds=30),
        total_steps=100,
        **fields,
    )


def rows_of(page, key: str):
    """Switch a chart to its table; returns the rows."""
    chart = page.locator(f"#chart-{key}")
    chart.get_by_role("button", name="Table").click()
    return chart.locator("tbody tr")


def test_a_run_is_checked_launched_watched_and_ends_as_a_policy(open_as, researcher, tmp_path: Path):
    pairs = office_pairs(tmp_path, 12)
    version = freeze({"train": pairs[:8], "validation": pairs[8:]}, of=researcher.workspace)
    page = open_as(researcher.user)
    page.goto("/runs/new/")
    page.get_by_text("Supervised fine-tuning", exact=True).click()
    page.get_by_label("Dataset version").select_option(str(version.pk))
    expect(page.locator("#check")).to_contain_text("one step takes 16")  # refused: there are 8 rows
    page.get_by_label("Batch size").fill("4")
    page.get_by_label("Batch size").blur()
    page.get_by_text("Quick check").click()
    expect(page.locator("#check")).to_contain_text("Ready to launch.", timeout=30_000)
    expect(page.locator("#command")).to_contain_text("-m trainer")
    rate = page.get_by_role("spinbutton", name="Learning rate")
    rate.fill("-5")
    expect(page.locator("#check .notice.bad")).to_be_visible()
    expect(page.locator("#check")).not_to_contain_text("Ready to launch.")
    rate.fill("")  # the preset's again
    expect(page.locator("#check")).to_contain_text("Ready to launch.", timeout=30_000)
    page.get_by_role("button", name="Launch").click()

    expect(page.locator("[data-live-state]")).to_have_text("Live")
    expect(page.locator("#run-status")).to_contain_text(re.compile(r"Step \d+ of 20"), timeout=TRAINING_MS)
    expect(page.locator("#chart-loss")).to_be_visible(timeout=30_000)
    first = rows_of(page, "loss").first
    expect(first).to_be_visible()
    words = first.inner_text()
    page.reload()  # a page opened midway shows the same
    expect(rows_of(page, "loss").first).to_have_text(words, use_inner_text=True)
    expect(page.get_by_role("link", name="Open its policy")).to_be_visible(timeout=TRAINING_MS)
    expect(page.locator("#run-status")).to_contain_text("Finished after 20 steps")
    expect(page.locator("#run-log")).to_contain_text("step 20: loss")
    page.get_by_label("X-axis").select_option("Tokens")
    expect(page.locator("#chart-loss .where")).to_have_text(re.compile(r"Tokens [\d,]{3,}"))
    expect(page.locator("[data-live-state]")).to_be_hidden()

    page.keyboard.press("p")
    expect(page.get_by_role("heading", level=1)).to_have_text(Run.objects.get().name)
    expect(page.locator(".lineage").first).to_contain_text(str(version))


def test_where_websockets_are_blocked_the_page_asks(open_as, researcher):
    run = running(researcher, step=10)
    Metric.objects.create(run=run, step=10, values={"loss": 0.7})
    page = open_as(researcher.user)
    page.route_web_socket("**/ws/runs/**", lambda socket: socket.close())
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url) if "/series/" in request.url else None)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#run-status")).to_contain_text("Step 10 of 100")
    rows = rows_of(page, "loss")
    expect(rows).to_have_text([re.compile("10.*0.7")])

    Metric.objects.create(run=run, step=11, values={"loss": 0.6})
    folder = folder_of(run.pk)
    folder.path.mkdir(parents=True)
    folder.log.write_text("step 11: loss 0.6\n")
    Run.objects.filter(pk=run.pk).update(step=11)
    expect(page.locator("#run-status")).to_contain_text("Step 11 of 100", timeout=30_000)
    expect(rows).to_have_text([re.compile("10.*0.7"), re.compile("11.*0.6")])
    assert [url.partition("/series/")[2] for url in requests] == ["", "?after=9"]  # only new rows
    expect(page.locator("#run-log")).to_have_text("step 11: loss 0.6\n")


def test_what_is_selected_and_scrolled_stays_while_the_run_goes_on(open_as, researcher):
    run = running(researcher, step=10)
    folder = folder_of(run.pk)
    folder.path.mkdir(parents=True)
    folder.log.write_text("".join(f"line {number}\n" for number in range(200)))
    page = open_as(researcher.user)
    page.route_web_socket("**/ws/runs/**", lambda socket: socket.close())
    page.goto(f"/runs/{run.pk}/")
    log = page.locator("#run-log")
    log.evaluate("log => { log.scrollTop = 40; getSelection().selectAllChildren(log); }")
    with folder.log.open("a") as file:
        file.write("a new line\n")
    Run.objects.filter(pk=run.pk).update(step=12)
    expect(page.locator("#run-status")).to_contain_text("Step 12 of 100", timeout=30_000)
    expect(log).to_contain_text("a new line")
    assert log.evaluate("log => log.scrollTop") == 40
    assert page.evaluate("() => getSelection().toString()").startswith("line 0")


def test_a_point_of_a_curve_opens_its_rollouts(open_as, researcher):
    run = running(researcher, step=20, name="grpo")
    for step in range(1, 21):
        values = {
            "reward": step / 20,
            "reward_std": 0.2,
            "entropy": 1 / step,
            "rewards/outcome/mean": 0.5,
            "kl": 0.01 * step,
        }
        Metric.objects.create(run=run, step=step, values=values | ({"eval/success": 0.4} if step % 10 == 0 else {}))
    keep(run, "step-000010")
    page = open_as(researcher.user)
    page.goto(f"/runs/{run.pk}/")
    expect(page.get_by_role("heading", name="Performance")).to_be_visible()
    chart = page.locator("#chart-reward")
    expect(chart.locator(".value")).to_have_text("1 (0.8 to 1.2)")  # with its band
    chart.get_by_role("img").focus()
    page.keyboard.press("Home")
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    expect(chart.locator(".where")).to_have_text("Step 10, rollouts kept")
    page.keyboard.press("ArrowRight")
    expect(chart.locator(".where")).to_have_text("Step 11")
    page.keyboard.press("Enter")  # the latest kept rollouts up to that step
    expect(page).to_have_url(re.compile("tag=grpo"))
    page.locator("a.row-link").first.click()
    expect(page).to_have_url(re.compile("/trajectories/.+"))


def test_a_curve_is_read_on_a_logarithmic_scale_where_it_can_be(open_as, researcher):
    losses = [1.0, 0.1, 0.01, 0.001]
    runs = [running(researcher, step=4, name=name) for name in ("one", "two")]
    for run in runs:
        for step, loss in enumerate(losses, start=1):
            Metric.objects.create(
                run=run, step=step, values={"loss": loss, "rewards/margins": step - 2, "success": 0.5}
            )
    page = open_as(researcher.user)
    page.goto(f"/runs/{runs[0].pk}/")
    chart = page.locator("#chart-loss")
    surface = chart.get_by_role("img")
    expect(surface).to_have_accessible_name("Loss: training by step")
    place = chart.bounding_box()

    button = chart.get_by_role("button", name="Log scale")
    expect(button).to_have_attribute("aria-pressed", "false")
    button.focus()
    page.keyboard.press("Space")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(surface).to_have_accessible_name("Loss: training by step, logarithmic")
    heights = [height_at(page, chart, step) for step in range(4)]
    steps = [below - above for above, below in pairwise(heights)]
    assert steps == pytest.approx([steps[0]] * 3, abs=1)  # each a tenth of the one before
    assert steps[0] > 10
    assert chart.bounding_box() == place
    expect(page.locator("#chart-success").get_by_role("button", name="Log scale")).to_have_count(0)  # a share

    margin = page.locator("#chart-reward-margin")
    margin.get_by_role("button", name="Log scale").click()
    expect(margin.get_by_role("img")).to_have_accessible_name(
        "Reward margin: training by step, linear: some values are not above 0"
    )

    page.goto(f"/runs/compare/?run={runs[0].pk}&run={runs[1].pk}")  # the choice applies to all pages
    expect(page.locator("#chart-loss").get_by_role("button", name="Log scale")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(page.locator("#chart-loss").get_by_role("img")).to_have_accessible_name(
        "Loss: one, two by step, logarithmic"
    )


def height_at(page, chart, position: int) -> float:
    """The vertical position of the first curve's dot, in pixels from the top."""
    chart.get_by_role("img").focus()
    page.keyboard.press("Home")
    for _ in range(position):
        page.keyboard.press("ArrowRight")
    return chart.locator(".u-cursor-pt").first.bounding_box()["y"]


PLACES_BY_STATE = """() => {
    const state = document.querySelector("[data-live-state]");
    return ["", "Live"].map((words) => {
        state.textContent = words;
        return document.getElementById("run").getBoundingClientRect().y;
    });
}"""


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_moves_when_the_page_becomes_live(open_as, researcher, width):
    run = running(researcher, step=4)
    page = open_as(researcher.user)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"/runs/{run.pk}/")
    assert len(set(page.evaluate(PLACES_BY_STATE))) == 1


def test_a_run_is_cancelled_by_key_after_a_question(open_as, researcher):
    run = running(researcher, step=10)
    page = open_as(researcher.user)
    page.goto(f"/runs/{run.pk}/")
    page.keyboard.press("c")
    page.get_by_role("button", name="Cancel training run").click()
    expect(page.locator("#run-head")).to_contain_text("Cancelling")
    run.refresh_from_db()
    assert run.state == Run.State.CANCELLING


def test_the_page_of_a_failure_says_what_to_do_and_fits_a_phone(open_as, researcher):
    failure = {
        "category": "killed",
        "message": "The training process was killed from outside (SIGKILL).",
        "advice": "Resume the run.",
        "details": "",
        "log": ["x" * 400],
        "command": "python -m trainer run.json",
    }
    run = factories.run(
        of=researcher.workspace, state=Run.State.FAILED, failure=failure, step=40, total_steps=100, checkpoint_step=40
    )
    page = open_as(researcher.user, viewport={"width": 390, "height": 844})
    page.goto(f"/runs/{run.pk}/")
    expect(page.get_by_role("heading", name="It was killed at step 40")).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    page.keyboard.press("r")
    expect(page.locator("#run-status")).not_to_contain_text("It was killed", timeout=30_000)
    assert run.events.filter(kind="resumed").count() == 1


def test_an_alarm_is_followed_with_one_click(open_as, researcher):
    config = {"optimizer": {"learning_rate": 3e-4, "max_steps": 20}}
    run = running(researcher, algorithm="grpo", config=config, checkpoint_step=9)
    words = "At step 9. Rising entropy: it grew from 0.16 to 0.27 nats a token. To try: Learning rate 0.0001 instead of 0.0003."
    details = {"name": "rising_entropy", "step": 9, "setting": "optimizer.learning_rate", "value": 1e-4}
    run.events.create(kind="alarm", text=words, details=details)
    page = open_as(researcher.user)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#run-status")).to_contain_text("cancel the training run first")
    Run.objects.filter(pk=run.pk).update(state=Run.State.CANCELLED)
    page.reload()
    page.get_by_role("button", name="Resume with this change").click()
    expect(page.locator(".timeline")).to_contain_text("changed Learning rate from 0.0003 to 0.0001, from step 9 on.")
    expect(page.get_by_role("button", name="Resume with this change")).to_have_count(0)
    run.refresh_from_db()
    assert run.config["optimizer"]["learning_rate"] == 1e-4
