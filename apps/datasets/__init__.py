"""Freezes judgments into immutable versions.

`recipe` declares the rules, `selection` finds the judgments and decides their verdicts, `rows` turns each verdict into a row, and `files` stores
the result; `build` joins them and `freezing` makes it final. `card` documents what a version contains and whose judgments it's made from.
"""
