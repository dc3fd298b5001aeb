"""`python -m contract.configs` writes the JSON Schema of every run.json to docs/schemas/."""

import json
from pathlib import Path

from contract.configs import RUN_CONFIGS
from contract.configs.schema import run_schema

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for kind, cls in RUN_CONFIGS.items():
        text = json.dumps(run_schema(cls), indent=2, ensure_ascii=False) + "\n"
        (FOLDER / f"run-{kind}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
