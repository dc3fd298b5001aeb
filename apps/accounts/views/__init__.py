"""The pages of people and workspaces, one module a page."""
