"""The embedded stack: PostgreSQL and Valkey from wheels, and the supervisor behind `make run`. Imports no Django."""
