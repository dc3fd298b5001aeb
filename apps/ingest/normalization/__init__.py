"""Shared by the formats: the many names under which logs and data sets store messages, calls, and outcomes."""
