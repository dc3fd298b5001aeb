"""How good the judgments are: agreement, what several of them say together, and figures of single annotators."""
