"""Trajectories out of traces: what observability tools record of an agent is spans in time, not a chat.

`payloads` reads the messages that a span was given or answered, in the spellings of many frameworks; `threads` puts the model calls of a trace
together into chats. The formats beside them turn a tool's export into spans.
"""
