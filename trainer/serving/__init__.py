"""Serving policies with vLLM: a client, and a keeper that runs a server with the requested model."""
