"""Agents that live elsewhere: they call a policy through the gateway, which records every call as part of a session."""
