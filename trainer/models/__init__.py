"""Base models: made from scratch, or loaded from a folder or the hub."""
