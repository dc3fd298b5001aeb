"""The files of a version: writing, storage, export, verification."""
