"""The calls of a session are found without a look at each of them."""

import time
from random import Random
from uuid import UUID

import numpy as np

from apps.gateway.call_graph import CallGraph, Node, sequence_digests
from apps.gateway.models import Join

MANY = 100_000
PROMPT = np.arange(40, dtype=np.int32)


def node(
    graph: CallGraph, number: int, *, body: int, chat: int, length: int | None = None, is_prefix: bool = True
) -> Node:
    """A call. length, is_prefix: of its tokens, and whether they begin `PROMPT`."""
    sequence = None if length is None else sequence_digests(PROMPT if is_prefix else PROMPT[::-1], {length})[length]
    return Node(
        UUID(int=number),
        digest(body),
        graph.sealed(digest(chat)),
        length,
        None if sequence is None else graph.sealed(sequence),
        b"",
        tokens=2,
    )


def digest(number: int) -> bytes:
    return number.to_bytes(16)


def test_each_call_is_found_as_by_a_look_at_all_of_them() -> None:
    random, graph = Random(0), CallGraph(b"key")
    nodes = [
        node(
            graph,
            number,
            body=random.randrange(10),
            chat=random.randrange(10),
            length=random.choice([None, *range(1, 9)]),
            is_prefix=random.random() < 0.5,
        )
        for number in random.sample(range(1, 200), 60)
    ]
    graph.add(nodes)
    graph.add(nodes[:20])  # read again
    assert (len(graph.nodes), graph.tokens, graph.last) == (60, 120, max(each.id for each in nodes))
    for number in range(10):
        of_body = [each.id for each in nodes if each.body_digest == digest(number)]
        assert graph.same_request(digest(number)) == max(of_body, default=None)
        of_chat = [each for each in nodes if each.chat_digest == graph.sealed(digest(number))]
        parent = graph.parent_of([{}], [digest(number)], PROMPT)
        prefixes = sequence_digests(PROMPT, range(1, 9))
        by_tokens = [
            each
            for each in of_chat
            if each.sequence_length and graph.sealed(prefixes[each.sequence_length]) == each.sequence_digest
        ]
        if by_tokens:
            assert (parent.join, parent.id) == (Join.TOKENS, max(each.id for each in by_tokens))
        elif of_chat:
            assert (parent.join, parent.id) == (Join.MESSAGES, of_chat[-1].id)
        else:
            assert parent.id is None


def test_a_call_takes_no_longer_after_very_many_calls() -> None:
    """It took 44 ms of the event loop after 100,000 calls."""
    graph = CallGraph(b"key")
    graph.add(node(graph, number, body=number, chat=number) for number in range(MANY))
    began = time.process_time()
    for number in range(100):
        assert graph.same_request(digest(number)) == UUID(int=number)
        assert graph.parent_of([{}], [digest(number)], PROMPT).id == UUID(int=number)
        assert (graph.tokens, graph.last) == (2 * MANY, UUID(int=MANY - 1))
    assert time.process_time() - began < 1
