"""Annotation: queues of items, the desk where annotators judge them, and the quality of their judgments.

`queues` creates and manages them, `desk` handles an annotator's current item, `review` settles disagreements, and `quality` measures all
of it. `judges` are machine annotators; `imported_judgments` converts judgments from imported files. All of them ask `kinds` for what
differs between kinds of judgments, and share `refusals`, the errors.
"""
