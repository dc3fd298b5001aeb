"""Judging: queues of items, the desk at which annotators judge them, and what the judgments are worth.

`queues` makes and steers them, `desk` is an annotator with an item in hand, `review` decides where people contradict each other,
`quality` measures all of it. `judges` are machine annotators; `imported_judgments` takes over judgments that came in with a file.
All of them ask `kinds` where kinds of judgments differ; what is refused (`refusals`) they share.
"""
