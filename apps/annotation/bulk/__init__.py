"""Acts on many items at once: one label for many trajectories, items for named people. Each can be undone."""
