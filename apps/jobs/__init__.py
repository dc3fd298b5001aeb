"""Background work: one engine claims, renews, ends, and recovers all jobs of workers."""
