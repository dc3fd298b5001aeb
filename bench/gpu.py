"""Shared by the GPU benchmarks: random models in Qwen's shapes, with each side in its own process.

    python -m bench.gpu_dpo 0.5B        our DPO compared with plain TRL, one JSON object per shape
    python -m bench.gpu_grpo 1.5B

The shape `tiny` runs anywhere, to test the benchmark itself; its figures mean nothing.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from contract.events import EventReader, Progress
from trainer.job import set_up_libraries

WARM_UP = 3
"""Steps that aren't counted: kernels are selected and memory is allocated in them."""
PEAKED = 8
"""Factor of the tied embeddings, so that a few dozen tokens have most of the probability, as in a trained model; initial weights make all equally
likely, and sampling unlikely tokens takes longer.
"""
TEXT = "Name the price of the lamp, the book and the chair. It costs 12 and 7. "


@dataclass(frozen=True)
class Shape:
    """A decoder, and the training batch of one step."""

    hidden: int
    layers: int
    intermediate: int
    heads: int
    kv_heads: int
    vocabulary: int
    batch: int
    """Pairs for DPO, rollouts for GRPO."""
    row_tokens: int
    steps: int = 9


SHAPES = {
    "0.5B": Shape(896, 24, 4864, 14, 2, 151_936, batch=8, row_tokens=1024),
    "1.5B": Shape(1536, 28, 8960, 12, 2, 151_936, batch=8, row_tokens=1024),
    "tiny": Shape(64, 2, 128, 2, 1, 512, batch=4, row_tokens=48, steps=6),
}


class Side(NamedTuple):
    """Results of one of the two sides."""

    step_seconds: float
    """Median after the warm-up."""
    peak_mb: float
    """GPU memory; process memory if there is no GPU."""
    tokens_a_step: float


def make_policy(shape: Shape, folder: Path) -> Path:
    """Create random weights, in bfloat16 on a GPU, and a tokenizer trained on TEXT."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from trainer.models.scratch import train_tokenizer

    tokenizer = train_tokenizer([TEXT], 400)
    on_gpu = torch.cuda.is_available()
    torch.manual_seed(0)
    with torch.device("cuda" if on_gpu else "cpu"):
        model: Any = Qwen3ForCausalLM(  # type: ignore[no-untyped-call]  # transformers leaves it untyped
            Qwen3Config(
                vocab_size=shape.vocabulary,
                hidden_size=shape.hidden,
                intermediate_size=shape.intermediate,
                num_hidden_layers=shape.layers,
                num_attention_heads=shape.heads,
                num_key_value_heads=shape.kv_heads,
                head_dim=shape.hidden // shape.heads,
                max_position_embeddings=4096,
                tie_word_embeddings=True,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
                bos_token_id=None,
            )
        )
    model.get_input_embeddings().weight.data.mul_(PEAKED)
    model.to(torch.bfloat16 if on_gpu else torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def ours(config: dict[str, Any], folder: Path, *, tokens_a_step: Callable[[Path], float]) -> Side:
    """Run `python -m trainer`, as a worker does."""
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(json.dumps(config))
    subprocess.run([sys.executable, "-m", "trainer", str(folder / "run.json")], check=True, stdout=sys.stderr)
    events = EventReader(folder / "events.jsonl").new_events()
    ends = [line.at for line in events if isinstance(line.event, Progress)]
    report = json.loads((folder / "report.json").read_text())
    peak = report.get("gpu_peak_memory_mb") or report["peak_memory_mb"]
    return Side(step_seconds(ends), peak, tokens_a_step(folder))


def bare(module: str, shape: str, folder: Path) -> Side:
    """Run plain TRL: `module` with --bare."""
    command = [sys.executable, "-m", module, "--bare", shape, str(folder)]
    set_up_libraries()  # both sides' threads use the same wait policy
    subprocess.run(command, check=True, stdout=sys.stderr)
    return Side(**json.loads((folder / "bare.json").read_text()))


def finish_bare(ends: Sequence[float], tokens_a_step: float, folder: Path) -> None:
    """Write the bare side's results for the parent process."""
    import torch

    from trainer.job import peak_memory_mb

    on_gpu = torch.cuda.max_memory_allocated() / 1e6 if torch.cuda.is_available() else 0.0
    side = Side(step_seconds(ends), round(on_gpu or peak_memory_mb(), 1), tokens_a_step)
    (folder / "bare.json").write_text(json.dumps(side._asdict()))


def step_seconds(ends: Sequence[float]) -> float:
    """Median step time, from the times at which steps ended."""
    gaps = [after - before for before, after in pairwise(ends)]
    return median(gaps[WARM_UP - 1 :] or gaps)


def compare(name: str, arguments: Sequence[str], both: Callable[[str, Path], tuple[Side, Side]]) -> None:
    """Measure each requested shape (by default all of Qwen's) and print the results."""
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    shapes = list(arguments) or [shape for shape in SHAPES if shape != "tiny"]
    if unknown := set(shapes) - set(SHAPES):
        sys.exit(f"No shape named {', '.join(sorted(unknown))}. There are: {', '.join(SHAPES)}.")
    if device == "cpu" and set(shapes) != {"tiny"}:
        sys.exit("There is no CUDA device here. `tiny` runs on the CPU, to see that the measurement works.")
    for shape in shapes:
        with tempfile.TemporaryDirectory(prefix="retrace-gpu-") as folder:
            ours_, plain = both(shape, Path(folder))
        figures = {
            "name": name,
            "shape": shape,
            "device": device,
            "tokens_per_second": round(ours_.tokens_a_step / ours_.step_seconds, 1),
            "bare_tokens_per_second": round(plain.tokens_a_step / plain.step_seconds, 1),
            "step_seconds": round(ours_.step_seconds, 4),
            "bare_step_seconds": round(plain.step_seconds, 4),
            "peak_mb": ours_.peak_mb,
            "bare_peak_mb": plain.peak_mb,
            "with": asdict(SHAPES[shape]),
        }
        print(json.dumps(figures), flush=True)
