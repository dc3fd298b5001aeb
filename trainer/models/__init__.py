"""Base models: created from scratch, or loaded from a folder or the hub."""
