"""The home page: what waits for a person and, for researchers, the whole loop at a glance."""
