"""The first page: what waits for a person, and for a researcher the whole loop at a glance."""
