"""The files of a version: written once, kept, handed out, proven."""
