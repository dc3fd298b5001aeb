"""What researchers and annotators send."""
