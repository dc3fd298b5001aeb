"""One thin module per algorithm, each over TRL's trainer; `training_run` is what they share."""
