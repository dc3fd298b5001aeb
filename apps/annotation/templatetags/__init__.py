"""Words for judgments in templates."""
