"""Response and request models: one module per resource.

Responses tolerate fields that a newer server adds; states and kinds are plain text for the same reason.
"""
