"""Actions on many items at once: one label for many trajectories, items assigned to people. Each can be undone."""
