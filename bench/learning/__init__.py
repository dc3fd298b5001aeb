"""Does it learn? Every algorithm on the office's held-out tasks, from scratch on a CPU. `make bench-learning` runs it.

A stage trains through `python -m trainer`, as a worker does, and measures the policy before and after. Each line it prints is one
JSON object: {"stage", "seed", "before", "after", "n", "low", "high", "seconds", "peak_mb"}, with low and high the 95 % interval
(Wilson) of `after`, and `seconds` the training alone.
"""
