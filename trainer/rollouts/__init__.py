"""A policy acts on tasks and produces trajectories: `runner` plays many episodes concurrently, `episode` plays one.

Policies come from three engines behind one interface (`policy`): `scripted`, `local` (transformers), `server` (OpenAI-compatible).
"""
