"""Traffic splits: gateway model names that are routed to one policy, or to several by weight."""
