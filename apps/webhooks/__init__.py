"""Notifies servers, email addresses, and Slack of events in a workspace."""
