"""From an upload to stored trajectories, in the background, so that nothing is lost and nothing comes in twice."""
