"""Serving policies with vLLM: asking a server, and keeping one running with the model that is wanted."""
