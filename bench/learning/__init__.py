"""Learning benchmarks: every algorithm on the office's held-out tasks, from scratch on a CPU. `make bench-learning` runs them.

A stage trains through `python -m trainer`, as a worker does, and measures the policy before and after. Each line that it prints is one
JSON object: {"stage", "seed", "before", "after", "n", "low", "high", "seconds", "peak_mb"}, where low and high are the 95 % Wilson interval
of `after`, and `seconds` is the training time alone.
"""
