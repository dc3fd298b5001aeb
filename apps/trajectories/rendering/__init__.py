"""Renders what agents saw, thought, said, and got back as safe HTML of bounded size.

Everything here is pure: stored JSON in, escaped markup out. Long content is cut after a screenful with a link to the
rest, which the page fetches on demand.
"""
