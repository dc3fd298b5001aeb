"""The one way out: every HTTP request and websocket that Retrace opens to a server that somebody named goes through here.

`transport` makes clients and sockets, `networks` says which addresses they may connect to, `replies` what may be told of a reply.
Addresses are checked when a connection is made, after the name was resolved, so neither a redirect nor a name that changes its
mind gets around the check. Only `transport` and `replies` import httpx.
"""
