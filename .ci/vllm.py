"""Creates .venv-vllm, an environment with vLLM for the CPU on top of .venv, unless that's already done.

vLLM's own requirements would replace the CPU build of torch and install builds of torchvision, torchaudio, and torchcodec that break `import
trl`. So it gets its own environment that includes .venv, with every package pinned and installed without its dependencies.
"""

import hashlib
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BELOW = ROOT / ".venv"
VENV = ROOT / ".venv-vllm"
PINS = ROOT / "requirements-vllm.txt"


def main() -> None:
    stamp = VENV / "installed"
    wanted = hashlib.sha256(PINS.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("Installing vLLM for the CPU into .venv-vllm (once; minutes, 2 GB)", flush=True)
    below = sysconfig.get_path("purelib", vars={"base": str(BELOW), "platbase": str(BELOW)})
    own = sysconfig.get_path("purelib", vars={"base": str(VENV), "platbase": str(VENV)})
    subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
    Path(own, "retrace.pth").write_text(f"{below}\n")
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([VENV / "bin" / "python", "-m", "pip", "install", *options, "--requirement", PINS], check=True)
    stamp.write_text(wanted)


if __name__ == "__main__":
    main()
