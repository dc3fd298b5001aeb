"""How good the judgements are: agreement, what several of them say together, and figures of single annotators."""
