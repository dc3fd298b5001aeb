"""The whole loop in a real browser on the real stack: import, replay, judge, freeze, train on the judgments, reward rollouts by them, compare, promote."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import Role
from apps.annotation.models import Item, Preference, Queue
from apps.arena.models import Experiment
from apps.policies.promotions import champion
from apps.training.models import Run
from tests import factories

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1200)]
ROOT = Path(__file__).resolve().parents[2]
LONG = 420_000
"""Timeout in milliseconds for training a model on a busy machine."""
SCRIPTS = ("expert", "careless", "hasty")
TASKS = 14


@pytest.fixture(scope="module")
def runs_file(tmp_path_factory) -> Path:
    """Runs of three scripts on the same tasks, as the trainer's command line writes them."""
    folder = tmp_path_factory.mktemp("runs")
    together = folder / "runs.jsonl"
    with together.open("w") as file:
        for script in SCRIPTS:
            place = folder / script
            place.mkdir()
            config = {
                "kind": "rollout",
                "policy": {"engine": "scripted", "script": script},
                "tasks": {"environment": "office", "split": "train", "count": TASKS, "seed": 7},
            }
            (place / "run.json").write_text(json.dumps(config))
            subprocess.run([sys.executable, "-m", "trainer", str(place / "run.json")], cwd=ROOT, check=True)
            file.write((place / "trajectories.jsonl").read_text())
    return together


@pytest.fixture
def people(transactional_db, live_stack):
    """A researcher and two annotators of one workspace."""
    workspace = factories.workspace()
    return {
        "researcher": factories.member(Role.RESEARCHER, of=workspace, name="Researcher").user,
        "first": factories.member(Role.ANNOTATOR, of=workspace, name="First annotator").user,
        "second": factories.member(Role.ANNOTATOR, of=workspace, name="Second annotator").user,
    }


def test_the_loop_closes(people, runs_file, open_as):
    researcher = open_as(people["researcher"])
    annotators = [open_as(people["first"]), open_as(people["second"])]

    import_runs(researcher, runs_file)
    replay_one(researcher)
    queue = make_queue(researcher)
    for annotator in annotators:
        judge_everything(annotator, queue)

    version_address = freeze(researcher)
    base = train(researcher, version_address, algorithm="sft", base=None, name="office-sft")
    tuned = train(researcher, version_address, algorithm="dpo", base="office-sft", name="office-dpo")
    assert Run.objects.get(name="office-dpo").result.base == Run.objects.get(name="office-sft").result
    assert base != tuned
    taste = train(researcher, version_address, algorithm="reward_model", base="office-sft", name="office-taste")
    rewarded = reward_by(researcher, "office-taste", base="office-sft", name="office-grpo")
    show_lineage(researcher, version_address, rewarded, through=taste)

    experiment = compare(researcher, "office-grpo", "office-sft")
    judge_everything(annotators[0], experiment.queue)
    promote(researcher, experiment)
    assert champion(workspace=experiment.workspace, environment="office").name == "office-grpo"


def import_runs(page: Page, file: Path) -> None:
    page.goto("/imports/")
    page.set_input_files("input[type=file]", str(file))
    page.get_by_role("button", name="Import").click()
    page.get_by_role("link", name="View trajectories").click(timeout=60_000)
    expect(page.locator("tbody tr").first).to_be_visible()


def replay_one(page: Page) -> None:
    page.locator("tbody a.row-link").first.click()
    page.wait_for_url("**/trajectories/*/**")
    before = page.url
    page.keyboard.press("j")
    page.wait_for_function("before => location.href !== before", arg=before)
    page.keyboard.press("j")
    at_third = page.url
    page.goto("about:blank")
    page.goto(at_third)  # a step's link opens that step
    expect(page.locator("[aria-current=step], [aria-current=true]").first).to_be_visible()


def make_queue(page: Page) -> Queue:
    page.goto("/queues/new/")
    page.fill("input[name=name]", "Office pairs")
    page.fill("input[name=overlap]", "2")
    page.get_by_label("One", exact=True).check(force=True)
    page.get_by_label("Only trajectories that ended differently").check()
    page.get_by_role("button", name="Create queue").click()
    page.wait_for_url("**/queues/*/")
    queue = Queue.objects.get(name="Office pairs")
    for _ in range(60):
        queue.refresh_from_db()
        if queue.state == Queue.State.OPEN:
            break
        page.wait_for_timeout(500)
    assert queue.item_count >= 6
    return queue


def judge_everything(page: Page, queue: Queue) -> None:
    """Judges by keyboard, by the runs' content rather than their side, so that both annotators agree."""
    before = Preference.objects.valid().filter(queue=queue).count()
    page.goto(f"/desk/{queue.pk}/")
    if queue.guidelines.exists():  # they open automatically the first time
        guidelines = page.locator("#guidelines")
        expect(guidelines).to_be_visible()
        page.keyboard.press("g")
        expect(guidelines).to_be_hidden()
    for _ in range(Item.objects.filter(queue=queue).count()):
        pair = page.locator("#pair")
        expect(pair).to_be_visible(timeout=30_000)
        shown = pair.get_attribute("data-pair")
        left, right = (
            "\n".join(page.locator(f"#pair .pair-cell[data-side={side}]").all_inner_texts())
            for side in ("left", "right")
        )
        page.keyboard.press("4" if left == right else "2" if left < right else "6")
        page.keyboard.press("Enter")
        page.wait_for_function(
            "shown => document.querySelector('#pair')?.dataset.pair !== shown", arg=shown, timeout=30_000
        )
    expect(page.locator("#pair")).to_have_count(0, timeout=30_000)
    everything = before + Item.objects.filter(queue=queue).count()
    for _ in range(60):  # the desk moves on before the server has answered
        if Preference.objects.valid().filter(queue=queue).count() == everything:
            return
        page.wait_for_timeout(500)
    pytest.fail(f"Of {everything} judgments only {Preference.objects.valid().filter(queue=queue).count()} arrived.")


def freeze(page: Page) -> str:
    page.goto("/datasets/new/")
    page.fill("input[name=name]", "Office preferences")
    page.locator("form.form button.primary").click()
    page.wait_for_url("**/freeze/**")
    page.get_by_label("Office pairs").check()
    page.get_by_role("button", name="Freeze version 1").click()
    page.locator("#confirm button.primary").click()
    page.wait_for_url("**/v/1/")
    expect(page.get_by_role("link", name="Train on this")).to_be_visible(timeout=60_000)
    return page.url


def train(page: Page, version_address: str, *, algorithm: str, base: str | None, name: str) -> str:
    """Launch from the version's page and watch the run to its end without reloading."""
    page.goto(version_address)
    page.get_by_role("link", name="Train on this").click()
    page.locator(f"input[name=algorithm][value={algorithm}]").check(force=True)
    if base:
        page.select_option("select[name=base]", label=base)
    page.locator("input[name=preset][value=quick]").check(force=True)
    page.fill("input[name=name]", name)
    expect(page.locator("input[name=optimizer-max_steps]")).to_have_attribute("placeholder", "20")  # the preset's
    page.locator("#advanced summary").click()
    page.fill("input[name=optimizer-batch_size]", "2")
    page.fill("input[name=optimizer-max_steps]", "6")
    page.fill("input[name=checkpoints-every]", "3")
    return launch(page, name)


def reward_by(page: Page, model: str, *, base: str, name: str) -> str:
    """GRPO on the environment's outcome and, with a lower weight, on a reward model of people's preferences."""
    page.goto("/runs/new/?algorithm=grpo")
    page.select_option("select[name=base]", label=base)
    page.locator("input[name=preset][value=quick]").check(force=True)
    page.fill("input[name=name]", name)
    settings = page.locator("#settings")
    expect(settings.locator("input[name=optimizer-max_steps]")).to_have_attribute("placeholder", "20")  # the preset's
    expect(settings.get_by_label("Reward model", exact=True)).to_be_hidden()
    page.fill("input[name=term-learned_outcome-weight]", "0.8")
    page.select_option("select[name=term-learned_outcome-policy]", label=model)
    formula = page.locator("#reward-formula")
    expect(formula).to_contain_text(f"0.8 · learned outcome reward ({model})", timeout=60_000)
    expect(formula).to_contain_text("a rollout that fails may be rewarded more than one that succeeds")
    page.fill("input[name=term-learned_outcome-weight]", "0.4")
    expect(formula).to_contain_text("0.4 · learned outcome reward", timeout=60_000)
    expect(formula).not_to_contain_text("may be rewarded more")
    # Groups of four: a group of two with equal rewards teaches nothing, and a policy that learned nothing acts like its base.
    for setting, value in {"optimizer-batch_size": 8, "optimizer-max_steps": 2, "samples": 4, "held_out": 2}.items():
        page.fill(f"input[name={setting}]", str(value))
    page.fill("input[name=budget-steps]", "2")
    page.locator("#advanced summary").click()
    page.fill("input[name=optimizer-gradient_accumulation]", "1")
    page.fill("input[name=sampling-max_new_tokens]", "16")
    policy = launch(page, name)
    assert Run.objects.get(name=name).rewards.get().policy.name == model
    return policy


def show_lineage(page: Page, version_address: str, policy: str, *, through: str) -> None:
    """The version's page leads through the reward model to the policy, and the policy's page leads back to the people."""
    page.goto(version_address)
    page.locator(".lineage").get_by_role("link", name="office-grpo", exact=True).first.click()
    page.wait_for_url(f"**/policies/{policy}/")
    origins = page.locator(".lineage").first
    expect(origins.get_by_role("link", name="office-taste", exact=True).first).to_have_attribute(
        "href", f"/policies/{through}/"
    )
    expect(origins).to_contain_text("judgments)")


def launch(page: Page, name: str) -> str:
    """Launch once the settings are validated; returns the run's policy."""
    expect(page.locator("#check")).to_contain_text("python", timeout=LONG)  # the exact command
    page.get_by_role("button", name="Launch").click()
    page.wait_for_url("**/runs/*/", timeout=60_000)
    expect(page.locator(".status.done").first).to_be_visible(timeout=LONG)
    expect(page.get_by_role("link", name="Open its policy")).to_be_visible()
    return str(Run.objects.get(name=name).result_id)


def compare(page: Page, a: str, b: str) -> Experiment:
    page.goto("/experiments/new/")
    page.fill("input[name=name]", "Did the people's reward help?")
    page.select_option("select[name=policy_a]", label=a)
    page.select_option("select[name=policy_b]", label=b)
    page.fill("input[name=tasks]", "6")
    page.fill("input[name=min_tasks]", "2")
    page.get_by_role("button", name="Start experiment").click()
    page.wait_for_url("**/experiments/*/")
    expect(page.get_by_text("Pairs judged")).to_be_visible(timeout=LONG)
    experiment = Experiment.objects.select_related("queue", "workspace").get(name="Did the people's reward help?")
    assert experiment.queue, f"All pairs are alike: {experiment.alike}"
    return experiment


def promote(page: Page, experiment: Experiment) -> None:
    page.goto(f"/experiments/{experiment.pk}/")
    # Six tasks are judged quickly; the periodic task then ends the experiment by its rule, and the page shows that without a reload.
    expect(page.locator(".next h2")).to_be_visible(timeout=60_000)
    page.keyboard.press("p")
    page.select_option("#promote select[name=policy]", label="office-grpo")
    page.fill("#promote textarea[name=reason]", "It is the newer one, and nothing speaks against it.")
    page.locator("#promote button.primary").click()
    expect(page.locator(".badge.accent", has_text="champion")).to_be_visible()
