"""The protocols that agents speak to the gateway, each with its requests, replies, streams and errors."""
