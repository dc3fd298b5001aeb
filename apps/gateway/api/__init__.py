"""Sessions over REST."""
