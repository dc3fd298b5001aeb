"""Selects the judgments for a recipe, aggregates them, and assigns each task to a split."""
