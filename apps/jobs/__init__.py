"""Background work: whatever a worker does for somebody, taken, renewed, ended and brought back by one engine."""
