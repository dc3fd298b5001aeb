"""Trajectories of agents: how they are imported, stored, and replayed.

Input: `imports` stores what `apps.ingest` reads from files; `rollouts` stores what policies did here.
Output: `rendering` displays steps, `comparison` aligns trajectories of one task, `text_search` and `filters` search them.
"""
