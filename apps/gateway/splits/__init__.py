"""Traffic splits: names of the gateway that lead to one policy or to several by weight."""
