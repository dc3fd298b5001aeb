"""The command `retrace`, one module for each group of subcommands."""
