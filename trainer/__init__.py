"""The machine learning of Retrace, without the web: `python -m trainer run.json`.

A run is a folder. It holds `run.json` (what to do, see `contract.configs`), and the trainer adds
`events.jsonl` (what happens, see `contract.events`), `checkpoints/`, `model/` and `report.json`.
Nothing in this package imports Django or Celery.
"""
