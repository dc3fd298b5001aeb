"""Export of a whole workspace as one archive, and import of such an archive into an empty workspace."""
