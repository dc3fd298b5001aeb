"""Freezing judgments into versions that never change.

`recipe` says which rules, `selection` finds the judgments and their verdicts, `rows` spells each as a row, `files` keeps what came of it;
`build` joins them and `freezing` makes it final. `card` says what is in a version, and from whom.
"""
