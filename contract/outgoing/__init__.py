"""Outgoing connections: every HTTP request and websocket to an address that a user named goes through here.

`transport` makes clients and sockets, `networks` decides which addresses they may connect to, `replies` what may be reported of a reply.
Addresses are checked at connection time, after name resolution, so neither redirects nor DNS rebinding
get around the check. Only `transport` and `replies` import httpx.
"""
