"""Forms of researchers and annotators."""
