"""Reads trajectory files in the formats of many tools into `contract.trajectory`. Depends on no database and not on Django.

In processing order: `files` (compression, containers, and how records are laid out) → `normalization` and `traces` (one form for chats, outcomes,
and spans) → `formats` (one module per format, and which format a record has) → `upload` (a file or a whole archive, record by record).
"""
