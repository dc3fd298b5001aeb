"""Pages of people and workspaces, one module per page."""
