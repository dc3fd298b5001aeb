"""The protocols that agents use with the gateway, each with its requests, replies, streams, and errors."""
