"""`python -m bench.learning.pictures`: redraws the pictures of docs/learning.md from the stored results.

Thin lines and small dots are seeds. A mean has its 95 % interval over seeds (Student's t), as in the tables.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple
from xml.sax.saxutils import escape

from bench.learning.results import KEPT, read
from bench.learning.tables import half_interval

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
UNSEEN = range(5, 15)
"""Seeds that no setting was chosen on."""
STAGES = {
    "grpo": "GRPO, 60 steps",
    "process": "GRPO, process rewards",
    "dpo": "DPO",
    "step-dpo": "step-level DPO",
    "corrections": "corrections",
    "corrections-third": "corrections, a third",
    "curation": "curated demonstrations",
}
STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2430 }
.quiet { fill: #5d6573 }
.grid { stroke: #d9dde3 }
.seed { stroke: #2f6fde; stroke-opacity: .4; fill: none }
.mean { stroke: #2f6fde; stroke-width: 2.5; fill: none }
.band { fill: #2f6fde; fill-opacity: .14 }
circle { fill: #2f6fde }
circle.one { fill-opacity: .45 }
@media (prefers-color-scheme: dark) {
  text { fill: #e7eaf0 } .quiet { fill: #a2abba } .grid { stroke: #3a414d }
  .seed, .mean { stroke: #7aa7ff } .band, circle { fill: #7aa7ff }
}"""


class Axis(NamedTuple):
    """A linear scale from values to pixels."""

    first: float
    last: float
    begin: float
    end: float

    def at(self, value: float) -> str:
        share = (value - self.first) / (self.last - self.first)
        return f"{self.begin + share * (self.end - self.begin):.1f}"


def curves(results: Path) -> str:
    """Held-out success along GRPO with the rule, for each unseen seed and on average."""
    outcomes = [outcome for outcome in read(results, "grpo") if outcome["seed"] in UNSEEN]
    by_step = defaultdict(list)
    for outcome in outcomes:
        for step, success in outcome["success"]:
            by_step[step].append(100 * success)
    across, up = Axis(0, max(by_step), 60, 690), Axis(20, 100, 290, 20)
    marks = [
        *(
            f'<line class="grid" x1="60" x2="690" y1="{up.at(y)}" y2="{up.at(y)}"/>{text(52, up.at(y), f"{y} %", "end")}'
            for y in range(20, 101, 20)
        ),
        *(text(across.at(step), "312", str(step), "middle") for step in sorted(by_step)),
        text("375", "336", "optimizer steps", "middle"),
    ]
    marks += [
        path("seed", [(across.at(step), up.at(100 * success)) for step, success in outcome["success"]])
        for outcome in outcomes
    ]
    ranges = {step: (fmean(values), half_interval(values)) for step, values in sorted(by_step.items())}
    upper = [(across.at(step), up.at(mean + half)) for step, (mean, half) in ranges.items()]
    lower = [(across.at(step), up.at(mean - half)) for step, (mean, half) in ranges.items()]
    marks.append(f'<path class="band" d="{drawn([*upper, *reversed(lower)])}Z"/>')
    marks.append(path("mean", [(across.at(step), up.at(mean)) for step, (mean, _) in ranges.items()]))
    title = f"GRPO: success on 60 held-out tasks, {len(outcomes)} unseen seeds, their mean and its 95 % interval"
    return picture(720, 350, title, marks)


def gains(results: Path) -> str:
    """Gain on 300 held-out tasks by stage, for each unseen seed and on average."""
    by_stage = {
        name: [100 * outcome["gain"]["value"] for outcome in read(results, stage) if outcome["seed"] in UNSEEN]
        for stage, name in STAGES.items()
    }
    shown = {name: values for name, values in by_stage.items() if values}
    bottom = 20 + 34 * len(shown)
    across = Axis(-10, 40, 260, 690)
    marks = [
        f'<line class="grid" x1="{across.at(x)}" x2="{across.at(x)}" y1="20" y2="{bottom}"/>'
        f"{text(across.at(x), str(bottom + 20), f'{x:+}'.replace('-', '−') if x else '0', 'middle')}"
        for x in range(-10, 41, 10)
    ]
    marks.append(text("475", str(bottom + 44), "gain in held-out success, points", "middle"))
    for row, (name, values) in enumerate(shown.items()):
        y = str(37 + 34 * row)
        count = f"{len(values)} seed{'s' if len(values) > 1 else ''}"
        marks.append(
            f'<text x="250" y="{y}" dy=".35em" text-anchor="end">{name} <tspan class="quiet">· {count}</tspan></text>'
        )
        marks += [f'<circle class="one" cx="{across.at(value)}" cy="{y}" r="3.5"/>' for value in values]
        if len(values) > 2:
            mean, half = fmean(values), half_interval(values)
            marks.append(path("mean", [(across.at(mean - half), y), (across.at(mean + half), y)]))
            marks.append(f'<circle cx="{across.at(mean)}" cy="{y}" r="5.5"/>')
    title = "Gain of each stage on unseen seeds, and from three seeds on the mean and its 95 % interval"
    return picture(720, bottom + 60, title, marks)


def picture(width: int, height: int, title: str, marks: Iterable[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            *marks,
            "</svg>\n",
        ]
    )


def text(x: str | int, y: str, words: str, anchor: str) -> str:
    return f'<text class="quiet" x="{x}" y="{y}" dy=".35em" text-anchor="{anchor}">{escape(words)}</text>'


def path(kind: str, points: Sequence[tuple[str, str]]) -> str:
    return f'<path class="{kind}" d="{drawn(points)}"/>'


def drawn(points: Iterable[tuple[str, str]]) -> str:
    """SVG path data of straight lines through the points."""
    return "M" + "L".join(f"{x} {y}" for x, y in points)


PICTURES = {"learning-curves.svg": curves, "learning-gains.svg": gains}


def main() -> None:
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(KEPT), encoding="utf-8")


if __name__ == "__main__":
    main()
