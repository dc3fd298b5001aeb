"""Measurements of speed and scale, one script each. `make bench SIZE=…` runs them all."""
