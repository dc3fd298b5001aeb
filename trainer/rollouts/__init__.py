"""A policy acts on tasks, and trajectories come out: `runner` plays many episodes at once, `episode` plays one.

Policies come from three engines behind one interface (`policy`): `scripted`, `local` (transformers), `server` (OpenAI-compatible).
"""
