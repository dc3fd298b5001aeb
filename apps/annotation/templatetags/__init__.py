"""Words for judgements in templates."""
