"""Trajectories from traces: observability tools record an agent as timed spans, not as a chat.

`payloads` reads the messages in a span's input and output, in the forms of many frameworks; `threads` joins a trace's model calls
into chats. The formats that use them convert a tool's export to spans.
"""
