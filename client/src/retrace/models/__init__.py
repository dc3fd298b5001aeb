"""What the server answers, and what it is sent: one module for each resource.

Answers tolerate what a newer server adds; names of states and kinds are plain text for the same reason.
"""
