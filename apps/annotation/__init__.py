"""Judging: queues of items, the desk at which annotators judge them, and what the judgements are worth.

`queues` makes and steers them, `desk` is an annotator with an item in hand, `review` decides where people contradict each other,
`quality` measures all of it. `judges` are machine annotators; `adoption` takes over judgements that came in with a file.
What a queue asks (`asking`) and what is refused (`refusals`) all of them share.
"""
