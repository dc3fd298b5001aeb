"""Benchmarks of speed and scale, one module each. `make bench SIZE=…` runs them all."""
