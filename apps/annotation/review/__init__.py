"""Where people contradict each other: what is decided, and what is said about it."""
