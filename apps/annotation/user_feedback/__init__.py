"""Converts feedback of agents' users into judgments."""
