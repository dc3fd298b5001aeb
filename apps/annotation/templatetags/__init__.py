"""Template tags for judgments."""
