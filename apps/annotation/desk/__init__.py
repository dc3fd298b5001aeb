"""An annotator's current item: assignment, display, and answer."""
