"""How judged runs become rows: one file a row type."""
