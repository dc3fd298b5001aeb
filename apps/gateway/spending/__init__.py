"""What calls cost, and how much a workspace and its sessions may use."""
