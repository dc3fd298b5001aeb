"""Everything the parts of Retrace share, declared once: configs, trajectories, rows, run events, references.

`apps`, `trainer` and `workers` import this package; it imports none of them, and neither Django nor torch.
"""
