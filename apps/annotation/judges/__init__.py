"""Machine annotators: language models and reward models that judge alongside people."""
