"""What agents did: how it comes in, how it is kept, and how it is replayed.

In: `files` (bytes) → `spellings` and `traces` (words) → `formats` (a file a tool) → `imports` (stored runs); `rollouts` are those that policies play here.
Out: `rendering` shows a step as what it is, `comparison` aligns runs of one task, `finding` and `filtering` search them.
"""
