"""Which judgments a recipe takes, what they come to together, and which split each task is in."""
