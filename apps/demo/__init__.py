"""A workspace where every page has real content. None of it is made up: rollouts come from the built-in environment, judgments from
rules that are labeled as rules, and policies from training that happens while one watches.
"""
