"""Review of disputed items: decisions, and discussion."""
