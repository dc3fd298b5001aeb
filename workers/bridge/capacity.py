"""The training workers' devices. Each worker reports its own; pages that plan a run read it here, from any machine."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from django.conf import settings
from django.core.cache import cache

from workers.bridge.estimates import cpu_tflops, gpu_tflops

KEY = "training-worker-capacity"
REPORT_TTL_SECONDS = 90.0
BF16_CAPABILITY = 8.0
"""The compute capability of Ampere."""


@dataclass(frozen=True)
class Capacity:
    """The memory of one training worker's device."""

    device: str
    memory_mb: float
    on_gpu: bool
    has_bf16: bool = False
    """Whether the device supports bfloat16 natively; torch emulates it on others."""
    reported_at: float = 0.0
    tflops: float | None = None
    """Effective training throughput in 10¹² operations per second; None for an unknown GPU."""


def largest_capacity() -> Capacity | None:
    """The worker with the most memory that reported recently; None if none did."""
    reports = [Capacity(**report) for report in (cache.get(KEY) or {}).values()]
    current = [capacity for capacity in reports if time.time() - capacity.reported_at < REPORT_TTL_SECONDS]
    return max(current, key=lambda capacity: capacity.memory_mb, default=None)


def local_capacity() -> Capacity:
    """This machine's capacity: its smallest GPU, or else the memory available to this process."""
    gpus = _gpus()
    if gpus:
        smallest = min(gpus, key=lambda gpu: gpu.memory_mb)
        label = f"{len(gpus)} GPU{'s' if len(gpus) > 1 else ''}"
        has_bf16 = all(gpu.capability >= BF16_CAPABILITY for gpu in gpus)
        tflops = gpu_tflops(smallest.name)
        return Capacity(label, smallest.memory_mb, on_gpu=True, has_bf16=has_bf16, tflops=tflops)
    limits = [psutil.virtual_memory().total / 1e6, settings.TRAINER_MEMORY_MB, *_cgroup_limit_mb()]
    return Capacity("CPU", min(limit for limit in limits if limit), on_gpu=False, tflops=cpu_tflops())


def report() -> None:
    """Report this machine's capacity. If two workers report at once, one report may be lost until the next, seconds later."""
    reports: dict[str, Any] = cache.get(KEY) or {}
    reports[socket.gethostname()] = asdict(local_capacity()) | {"reported_at": time.time()}
    cache.set(KEY, reports, timeout=int(REPORT_TTL_SECONDS))


class Gpu(NamedTuple):
    """A GPU as listed by nvidia-smi."""

    name: str
    memory_mb: float
    capability: float


def _gpus() -> list[Gpu]:
    if not (program := shutil.which("nvidia-smi")):
        return []
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        query = [program, "--query-gpu=name,memory.total,compute_cap", "--format=csv,noheader,nounits"]
        output = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
        rows = [line.rsplit(",", 2) for line in output.splitlines() if line.strip()]
        return [
            Gpu(name.strip(), float(mebibytes) * 1.048576, float(capability)) for name, mebibytes, capability in rows
        ]
    return []


def _cgroup_limit_mb() -> list[float]:
    with suppress(OSError, ValueError):
        return [int(Path("/sys/fs/cgroup/memory.max").read_text()) / 1e6]
    return []  # "max", or no such file
