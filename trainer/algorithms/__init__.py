"""One thin file an algorithm, each over TRL's trainer; `training` is what they share."""
