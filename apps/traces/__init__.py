"""Traces that OpenTelemetry sends while agents run: received, kept until they rest, and made trajectories."""
