"""Reads files of trajectories, in the formats of many tools, into `contract.trajectory`. Knows no database and no Django.

From the bytes up: `files` (what a file is packed in, and how its records lie) → `normalization` and `traces` (one form for chats, outcomes,
spans) → `formats` (a module a format) → `recognition` (which format a file is) → `upload` (a file or a whole archive, record by record).
"""
