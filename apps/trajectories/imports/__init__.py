"""From an upload to stored runs, in the background, so that nothing is lost and nothing comes in twice."""
