"""What users of agents say, as judgments."""
