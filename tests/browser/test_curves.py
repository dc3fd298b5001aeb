"""Reading the curves of runs: by pointer and keyboard, smoothed, over other axes, several runs together."""

import re
from itertools import pairwise

import pytest
from django.utils.timezone import now
from playwright.sync_api import Route, expect

from apps.training.live import show
from apps.training.models import Metric, RunReward
from apps.training.progress import RunUpdate, TrainingStart, apply
from tests import factories
from tests.browser.test_following import elsewhere
from tests.browser.test_run import running

pytestmark = pytest.mark.browser


@pytest.fixture
def researcher(live_stack):
    return factories.member()


def measured(member, name="one", *, steps=20, **fields):
    run = running(member, name=name, step=steps, **fields)
    Metric.objects.bulk_create(
        Metric(
            run=run,
            step=step,
            values={
                "loss": 1 / step,
                "reward": step / 10,
                "kl": 0.01 * step,
                "tokens": 1000 * step,
                **({"eval/loss": 0.5} if step % 10 == 0 else {}),
            },
        )
        for step in range(1, steps + 1)
    )
    return run


def test_the_pointer_reads_all_curves_of_all_charts_at_its_step(open_as, researcher):
    page = open_as(researcher.user)
    page.goto(f"/runs/{measured(researcher).pk}/")
    loss = page.locator("#chart-loss")
    expect(loss.locator(".where")).to_have_text("Step 20")
    before = page.locator("#run-charts").bounding_box()
    loss.get_by_role("img").scroll_into_view_if_needed()
    over = loss.locator(".u-over")
    box = over.bounding_box()
    over.hover(position={"x": box["width"] * 12 / 19, "y": 40})  # steps 1 to 20: the 13th
    expect(loss.locator(".where")).to_have_text("Step 13")
    expect(loss.locator(".value")).to_have_text(["0.07692", "0.5"])  # validation was last measured at 10
    expect(page.locator("#chart-reward .where")).to_have_text("Step 13")
    expect(page.locator("#chart-reward .value")).to_have_text("1.3")
    assert page.locator("#run-charts").bounding_box()["height"] == before["height"]  # nothing moved
    page.mouse.move(0, 0)
    expect(loss.locator(".where")).to_have_text("Step 20")


def test_steps_that_a_resumed_run_repeats_are_drawn_anew(open_as, researcher):
    run = measured(researcher)
    page = open_as(researcher.user)
    page.goto(f"/runs/{run.pk}/")
    chart = page.locator("#chart-reward")
    expect(chart.locator(".value")).to_have_text("2")
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    began = TrainingStart(at=now(), step=10, total_steps=100, device="cpu")
    repeated = {step: {"reward": step / 100} for step in range(11, 22)}
    apply(run=run, update=RunUpdate(seq=1, offset=1, began=began, step=21, metrics=repeated))
    elsewhere(show, run.pk)
    expect(chart.locator(".value")).to_have_text("0.21")
    chart.get_by_role("img").focus()
    page.keyboard.press("End")
    for step in range(20, 10, -1):
        page.keyboard.press("ArrowLeft")
        expect(chart.locator(".value")).to_have_text(f"{step / 100:g}")


def test_the_dot_of_the_cursor_reaches_points_that_came_later(open_as, researcher):
    run = measured(researcher)
    page = open_as(researcher.user)
    page.goto(f"/runs/{run.pk}/")
    chart = page.locator("#chart-reward")
    expect(chart.locator(".value")).to_have_text("2")
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    later = {step: {"reward": step / 10} for step in range(21, 41)}
    apply(run=run, update=RunUpdate(seq=1, offset=1, step=40, metrics=later))
    elsewhere(show, run.pk)
    expect(chart.locator(".value")).to_have_text("4")
    chart.get_by_role("img").focus()
    page.keyboard.press("End")
    over, dot = (chart.locator(name).last.bounding_box() for name in (".u-over", ".u-cursor-pt"))
    assert dot["x"] + dot["width"] / 2 == pytest.approx(over["x"] + over["width"], abs=2)


def test_smoothing_is_chosen_once_for_every_run(open_as, researcher):
    one, two = measured(researcher, "one"), measured(researcher, "two")
    page = open_as(researcher.user)
    page.goto(f"/runs/{one.pk}/")
    value = page.locator("#chart-reward .value")
    expect(value).to_have_text("2")
    slider = page.get_by_label("Smoothing")
    slider.focus()
    page.keyboard.press("End")
    expect(page.locator(".curves-bar output")).to_have_text("0.98")
    expect(value).to_have_text("1.117, raw 2")
    page.goto(f"/runs/{two.pk}/")
    expect(slider).to_have_value("0.98")
    expect(value).to_have_text("1.117, raw 2")
    slider.focus()
    page.keyboard.press("Home")
    expect(value).to_have_text("2")


def test_curves_are_drawn_over_tokens_or_time_where_the_run_has_them(open_as, researcher):
    run = measured(researcher)
    page = open_as(researcher.user)
    page.goto(f"/runs/{run.pk}/")
    where = page.locator("#chart-loss .where")
    expect(where).to_have_text("Step 20")
    axis = page.get_by_label("X-axis")
    expect(axis.get_by_role("option", name="Rollouts")).to_be_disabled()  # it has none
    axis.select_option("Tokens")
    expect(where).to_have_text("Tokens 20,000")
    page.reload()
    expect(where).to_have_text("Tokens 20,000")
    axis.select_option("Wall-clock time")
    expect(where).to_have_text("Time 0 s")  # all were stored at once


def test_pinned_charts_come_first_on_every_run(open_as, researcher):
    one, two = measured(researcher, "one"), measured(researcher, "two")
    page = open_as(researcher.user)
    page.goto(f"/runs/{one.pk}/")
    pin = page.locator("#chart-kl-divergence").get_by_role("button", name="Pin")
    pin.focus()
    page.keyboard.press("Enter")
    expect(pin).to_have_attribute("aria-pressed", "true")
    expect(pin).to_be_focused()
    for run in (one, two):
        page.goto(f"/runs/{run.pk}/")
        first = page.locator("#run-charts section").first
        expect(first.get_by_role("heading")).to_have_text("Pinned")
        expect(first.locator("figure")).to_have_attribute("id", "chart-kl-divergence")
    pin.click()
    expect(page.get_by_role("heading", name="Pinned")).to_have_count(0)
    expect(page.locator("#chart-kl-divergence")).to_be_visible()


def test_a_link_shows_the_curves_as_they_were_seen(open_as, researcher):
    run = measured(researcher)
    page = open_as(researcher.user)
    page.goto(f"/runs/{run.pk}/")
    expect(page).to_have_url(
        re.compile(r"/\?axis=steps$")
    )  # even though nothing was selected, since whoever follows the link may have selected something
    page.get_by_label("X-axis").select_option("Tokens")
    page.locator("#chart-kl-divergence").get_by_role("button", name="Pin").click()
    page.locator("#chart-loss").get_by_role("button", name="Log scale").click()
    page.get_by_label("Smoothing").focus()
    page.keyboard.press("End")
    page.locator("#chart-loss").get_by_role("img").focus()
    page.keyboard.press("Home")
    page.keyboard.press("+")
    expect(page).to_have_url(
        re.compile(r"/\?axis=tokens&smoothing=0.98&pinned=kl-divergence&log=loss&from=1000&to=10500$")
    )
    link = page.url

    other = open_as(factories.member(of=researcher.workspace).user)
    other.goto(f"/runs/{run.pk}/")
    other.locator("#chart-reward").get_by_role("button", name="Pin").click()
    other.goto(link)
    expect(other.locator("#run-charts section").first.locator("figure")).to_have_attribute("id", "chart-kl-divergence")
    expect(other.locator("#chart-loss .where")).to_have_text("Tokens 20,000")
    expect(other.get_by_label("Smoothing")).to_have_value("0.98")
    expect(other.locator("#chart-loss").get_by_role("button", name="Log scale")).to_have_attribute(
        "aria-pressed", "true"
    )
    other.keyboard.press("-")  # out again
    expect(other.get_by_role("button", name="Reset zoom")).to_be_hidden()
    other.goto(f"/runs/{run.pk}/")  # their own choices are still theirs
    expect(other.locator("#run-charts section").first.locator("figure")).to_have_attribute("id", "chart-reward")
    expect(other.get_by_label("X-axis")).to_have_value("steps")
    other.goto(f"/runs/{run.pk}/?axis=constructor&smoothing=x&from=9&to=1&pinned=gone")
    expect(other.locator("#chart-loss .where")).to_have_text("Step 20")
    expect(other.get_by_label("Smoothing")).to_have_value("0")


def test_a_stretch_is_looked_at_closer_and_left_again(open_as, researcher):
    page = open_as(researcher.user)
    page.goto(f"/runs/{measured(researcher).pk}/")
    over = page.locator("#chart-loss .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 30, steps=4)
    page.mouse.up()
    reset = page.get_by_role("button", name="Reset zoom")
    expect(reset).to_be_visible()
    over.hover(position={"x": 1, "y": 30})  # the middle is now at the left end
    expect(page.locator("#chart-reward .where")).to_have_text("Step 11")
    reset.click()
    expect(reset).to_be_hidden()
    over.hover(position={"x": 1, "y": 30})
    expect(page.locator("#chart-reward .where")).to_have_text("Step 1")


def test_a_learned_reward_and_success_are_seen_to_part(open_as, researcher):
    run = running(researcher, step=4)
    model = factories.policy(of=researcher.workspace)
    RunReward.objects.create(run=run, policy=model, term="rm", component="learned_outcome", weight=1)
    for step, (reward, success) in enumerate([(0.2, 0.5), (0.5, 0.75), (0.7, 0.5), (0.9, 0.25)], start=1):
        values = {"rewards/rm/mean": reward, "eval/success": success, "eval/rollouts_scored": 40, "kl": step / 10}
        Metric.objects.create(run=run, step=step, values=values)
    page = open_as(researcher.user)
    page.goto(f"/runs/{run.pk}/")
    group = page.locator("#run-charts section").filter(has=page.get_by_role("heading", name="Over-optimization"))
    expect(group.locator("figcaption .panel-title")).to_have_text(
        ["Learned reward against held-out success", "KL divergence"]
    )
    chart = page.locator("#chart-learned-reward-and-success")
    expect(chart.locator(".value")).to_have_text(["0.9", "25 % (14.2 % to 40.2 %)"])  # Wilson, 10 of 40
    expect(chart.locator(".chart-legend")).to_contain_text("held-out success (right axis)")
    chart.get_by_role("img").focus()
    page.keyboard.press("Home")
    expect(chart.locator(".value")).to_have_text(["0.2", "50 % (35.2 % to 64.8 %)"])


def test_runs_of_different_lengths_lie_over_each_other(open_as, researcher):
    one, two = measured(researcher, "one", steps=4), measured(researcher, "two", steps=8)
    page = open_as(researcher.user)
    page.goto(f"/runs/compare/?run={one.pk}&run={two.pk}")
    chart = page.locator("#chart-reward")
    expect(chart.locator(".chart-legend li[title], .chart-legend [class^=series]")).to_have_count(2)
    chart.get_by_role("img").focus()
    page.keyboard.press("Home")
    expect(chart.locator(".value")).to_have_text(["0.1", "0.1"])
    page.keyboard.press("End")
    expect(chart.locator(".where")).to_have_text("Step 8")
    expect(chart.locator(".value")).to_have_text(["0.4", "0.8"])  # the last step of the shorter run


def test_the_curves_are_drawn_again_in_the_other_theme(open_as, researcher):
    page = open_as(researcher.user, color_scheme="light")
    page.goto(f"/runs/{measured(researcher).pk}/")
    canvas = page.locator("#chart-loss canvas")
    expect(canvas).to_be_visible()
    drawn = "document.querySelector('#chart-loss canvas').toDataURL()"
    by_day = page.evaluate(drawn)
    page.keyboard.press("T")
    page.wait_for_function(f"by_day => {drawn} !== by_day", arg=by_day)
    page.keyboard.press("T")
    page.wait_for_function(f"by_day => {drawn} === by_day", arg=by_day)  # it was complete


def test_curves_that_cannot_be_fetched_are_asked_for_again(open_as, researcher, console):
    console.expect("series/|503")
    page = open_as(researcher.user)
    held: list[Route] = []
    page.route("**/series/*", lambda route: route.continue_() if server_is_back else held.append(route))
    server_is_back = False

    def fail() -> None:
        while not held:  # the page also requests it when its socket connects
            page.wait_for_timeout(20)
        held.pop().fulfill(status=503)

    page.goto(f"/runs/{measured(researcher).pk}/")
    fail()
    failure = page.locator("[data-curves-failure]")
    expect(failure).to_contain_text("The curves are not up to date.")
    again = failure.get_by_role("button", name="Try again")
    again.click()
    again.click()  # while the previous request is still pending and will fail
    server_is_back = True
    fail()
    expect(page.locator("#chart-loss")).to_be_visible()
    expect(failure).to_be_hidden()


def test_the_notice_about_curves_goes_when_only_the_log_had_failed(open_as, researcher, console):
    console.expect("log/|503")
    run = measured(researcher)
    page = open_as(researcher.user)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    expect(page.locator("#chart-loss")).to_be_visible()
    is_down = True
    page.route("**/log/*", lambda route: route.fulfill(status=503) if is_down else route.fallback())
    page.evaluate("""() => {
        document.getElementById("run-status").dataset.log = 1e6;
        document.dispatchEvent(new CustomEvent("live:swapped"));
    }""")
    failure = page.locator("[data-curves-failure]")
    expect(failure).to_be_visible()
    is_down = False
    failure.get_by_role("button", name="Try again").click()
    expect(failure).to_be_hidden()


def test_curves_say_that_one_is_signed_out(open_as, researcher):
    page = open_as(researcher.user)
    page.route("**/series/*", lambda route: route.fulfill(status=302, headers={"Location": "/sign-in/"}))
    page.goto(f"/runs/{measured(researcher).pk}/")
    expect(page.locator("[data-curves-failure]")).to_contain_text("You are signed out.")


@pytest.mark.parametrize("steps", [0, 1, 2000])
def test_any_number_of_points_fits_a_phone(open_as, researcher, steps):
    run = measured(researcher, steps=steps)
    page = open_as(researcher.user, viewport={"width": 390, "height": 844})
    page.goto(f"/runs/{run.pk}/")
    if steps:
        expect(page.locator("#chart-loss .where")).to_have_text(f"Step {steps:,}")
        expect(page.locator("#chart-loss canvas")).to_be_visible()
    else:
        expect(page.get_by_text("Curves appear with the first step.")).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


def imported(page, module: str, expression: str):
    """The value of an expression in which `m` is one of our chart modules."""
    return page.evaluate(
        f"async () => {{ const m = await import('/static/js/charts/{module}.js'); return {expression}; }}"
    )


LABELS = [
    ([0.5, 0.5001, 0.5002], "number", ["0.5000", "0.5001", "0.5002"]),
    ([-0.5, 0, 0.5], "number", ["−0.5", "0", "0.5"]),
    ([0, 2e-6, 4e-6], "number", ["0", "2e−6", "4e−6"]),
    ([500_000, 1_000_000, 1_500_000], "number", ["0.5 M", "1.0 M", "1.5 M"]),
    ([0, 20_000_000_000, 40_000_000_000], "number", ["0 B", "20 B", "40 B"]),
    ([100_000, 100_005, 100_010], "number", ["100,000", "100,005", "100,010"]),
    ([1_234_567.80, 1_234_567.85], "number", ["1,234,567.80", "1,234,567.85"]),
    ([1e-9, 1.0000005e-9], "number", ["1.0000000e−9", "1.0000005e−9"]),
    ([-1e20, 0, 1e20], "number", ["−1e20", "0", "1e20"]),
    ([0.5, 0.505, 0.51], "percent", ["50.0 %", "50.5 %", "51.0 %"]),
    ([0, 900, 1800], "seconds", ["0 min", "15 min", "30 min"]),
    ([0, 7200, 14400], "seconds", ["0 h", "2 h", "4 h"]),
]


def test_no_label_of_an_axis_is_printed_twice(page):
    page.goto("/gallery/")
    for values, format, labels in LABELS:
        assert imported(page, "axes", f"m.tickLabels({values}, '{format}')") == labels


def test_labels_of_an_axis_have_room(page):
    page.goto("/gallery/")
    ticks = "m.xTicks([1, 4], m.X_AXES.steps, {width: 300, free: 320}, () => 20)"
    assert imported(page, "axes", ticks) == [1, 2, 3, 4]  # there is no step 1.5
    ticks = "m.xTicks([0, 10000], m.X_AXES.steps, {width: 300, free: 330}, () => 50)"
    assert imported(page, "axes", ticks) == [0, 5000, 10000]
    # The axis title begins at 300, and half of a label of 50 pixels would overlap it.
    ticks = "m.xTicks([0, 10000], m.X_AXES.steps, {width: 300, free: 300}, () => 50)"
    assert imported(page, "axes", ticks) == [0, 5000]
    assert imported(page, "axes", "m.xTicks([7, 7], m.X_AXES.steps, {width: 300, free: 320}, () => 40)") == [7]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_the_labels_of_tiny_and_huge_values_are_printed_once_and_whole(open_as, researcher, scheme, width):
    run = running(researcher, step=40)
    values = {"loss": 1e-9, "grad_norm": 1e30, "kl": -1e-6, "rewards/margins": 1e5, "memory_mb": 1e5, "turns": -1e300}
    Metric.objects.bulk_create(
        Metric(
            run=run,
            step=step,
            values={name: value * (1 + step / 9) for name, value in values.items()} | {"tokens": 2_900_000_000 * step},
        )
        for step in range(1, 41)
    )
    page = open_as(researcher.user, color_scheme=scheme, viewport={"width": width, "height": 900})
    page.add_init_script(WHAT_IS_PRINTED)
    page.goto(f"/runs/{run.pk}/?axis=tokens")
    expect(page.locator("#chart-memory canvas")).to_be_visible()
    for chart in ("loss", "gradient-norm", "kl-divergence", "reward-margin", "memory", "turns"):
        printed = page.evaluate("chart => printed(chart)", chart)
        texts = [text for text, *_ in printed]
        assert len(texts) == len(set(texts)), (chart, texts)
        assert len(texts) >= 4, (chart, texts)  # two for each axis, and the x-axis title
        assert "Tokens" in texts
        assert all(left >= 0 and right <= edge for _, left, right, _, edge in printed), (chart, printed)
        for (one, _, right, line, _), (two, left, _, below, _) in pairwise(sorted(printed, key=lambda p: (p[3], p[1]))):
            assert line != below or right < left, (chart, one, two)


WHAT_IS_PRINTED = """
    const lines = new Map();
    const clear = CanvasRenderingContext2D.prototype.clearRect;
    CanvasRenderingContext2D.prototype.clearRect = function (...box) {
        lines.set(this.canvas, []);
        clear.apply(this, box);
    };
    const write = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const { actualBoundingBoxLeft: left, actualBoundingBoxRight: right } = this.measureText(text);
        const at = this.getTransform().transformPoint({ x, y });
        if (text) lines.get(this.canvas).push([text, at.x - left, at.x + right, Math.round(at.y / 4), this.canvas.width]);
        write.call(this, text, x, y);
    };
    window.printed = (chart) => lines.get(document.querySelector(`#chart-${chart} canvas`));
"""


def test_an_average_has_no_bias_and_keeps_gaps(page):
    page.goto("/gallery/")
    # 1; (0.5·0.5·1 + 0.5·3) / 0.75; a gap; (0.5·1.75 + 0.5·3) / 0.875
    smoothed = "m.smoothed([1, 3, null, 3, undefined], 0.5).map((value) => value ?? String(value))"
    assert imported(page, "run_series", smoothed) == [
        1,
        pytest.approx(7 / 3),
        "null",
        pytest.approx(19 / 7),
        "undefined",
    ]


def test_tokens_that_a_resumed_run_counts_from_0_go_on(page):
    page.goto("/gallery/")
    total = "m.runningTotal([100, 200, undefined, 50, 100], 5)"
    assert imported(page, "run_series", total) == [100, 200, 200, 250, 300]
