"""OpenTelemetry traces sent by running agents: received, stored until they're complete, and converted to trajectories."""
