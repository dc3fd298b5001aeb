"""What agents did: how it comes in, how it is kept, and how it is replayed.

In: `imports` stores what `apps.ingest` reads from files; `rollouts` stores what policies did here.
Out: `rendering` shows a step as what it is, `comparison` aligns trajectories of one task, `text_search` and `filters` search them.
"""
