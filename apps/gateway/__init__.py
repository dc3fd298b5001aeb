"""Sessions of external agents: they call a policy through the gateway, which records every call as part of a session."""
