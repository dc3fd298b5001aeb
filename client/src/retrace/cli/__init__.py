"""The command `retrace`, one module per group of subcommands."""
