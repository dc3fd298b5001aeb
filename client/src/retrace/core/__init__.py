"""Shared by all calls: requests, retries, pagination, and their synchronous and asynchronous execution."""
