"""What every call has in common: requests, retries, pages, and the two ways to carry them out."""
