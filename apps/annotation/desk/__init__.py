"""An annotator with an item in hand: what they get, what they see, and what becomes of their answer."""
