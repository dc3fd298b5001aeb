"""Joins what is stored with what computes: rows become a run folder, a child process works in it, its events become rows."""
