"""mini-swe-agent fixes a program in a temporary folder. Only the model's address and key are specific to Retrace.

It runs the policy's commands in a shell on this machine: use a container for a policy that you don't trust.

pip install -r examples/requirements-mini-swe-agent.txt ./client
export RETRACE_URL=https://retrace.example.org RETRACE_TOKEN=rt_…
python examples/mini_swe_agent.py POLICY
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import retrace
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

TASK: dict[str, Any] = {
    "key": "mend-add",
    "environment": "shell",
    "instruction": "add(2, 3) in sum.py returns 6. Mend it.",
}
PROGRAM = "def add(a, b):\n    return a * b\n"
SYSTEM = "You solve tasks on a computer. Each reply calls the tool bash at least once."
INSTANCE = "{{task}}\nWhen it's done, run: echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
MAX_STEPS = 10


def play(base_url: str, api_key: str, instruction: str) -> bool:
    """Run the agent until it submits; returns whether the program is then correct."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sum.py").write_text(PROGRAM)
        agent = DefaultAgent(
            LitellmModel(
                model_name="openai/any",
                model_kwargs={"api_base": base_url, "api_key": api_key},
                cost_tracking="ignore_errors",
            ),
            LocalEnvironment(cwd=folder),
            system_template=SYSTEM,
            instance_template=INSTANCE,
            step_limit=MAX_STEPS,
        )
        agent.run(instruction)
        check = [sys.executable, "-c", "import sum; assert sum.add(2, 3) == 5"]
        return subprocess.run(check, cwd=folder, capture_output=True).returncode == 0


if __name__ == "__main__":
    with retrace.Client() as client, client.session(policy=sys.argv[1], task=TASK, agent="mini-swe-agent") as session:
        is_right = play(session.base_url, session.api_key, TASK["instruction"])
        session.finish(outcome="success" if is_right else "failure")
        print("It is mended." if is_right else "It isn't mended.")
