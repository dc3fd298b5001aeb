"""What every part of Retrace agrees on, declared once: configs, trajectories, rows, run events, references.

`apps`, `trainer` and `workers` import this package; it imports none of them, and neither Django nor torch.
"""
