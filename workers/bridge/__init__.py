"""Connects the database and the trainer: rows become a run folder, a child process works in it, and its events become rows."""
