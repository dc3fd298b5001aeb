"""Redaction: rules that replace text in calls, traces, and feedback before anything is stored."""
