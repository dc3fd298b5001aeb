"""A chat is recognized despite insignificant changes by client libraries."""

from contract.chat_digests import prefix_digests

ASK = {"role": "user", "content": "Where is the lamp?"}


def test_digests_grow_message_by_message() -> None:
    first, second = prefix_digests([ASK, {"role": "assistant", "content": "Hi"}])
    assert first != second
    assert prefix_digests([ASK]) == [first]


def test_what_says_nothing_changes_nothing() -> None:
    def call(arguments: object) -> dict[str, object]:
        function = {"name": "look", "arguments": arguments}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": function}],
        }

    sent = prefix_digests([ASK, call('{"room": 3}')])
    assert prefix_digests([{"role": "system", "content": "It is noon."}, ASK, call('{ "room":3 }')])[1:] == sent
    assert prefix_digests([ASK, {**call({"room": 3}), "content": ""}]) == sent
    assert prefix_digests([ASK, call('{"room": 4}')])[1] != sent[1]


def test_calls_of_legacy_functions_and_custom_tools_are_what_a_message_says() -> None:
    def legacy(arguments: str) -> dict[str, object]:
        return {"role": "assistant", "function_call": {"name": "look", "arguments": arguments}}

    assert prefix_digests([legacy('{"room": 3}')]) == prefix_digests([legacy('{"room":3}')])
    assert prefix_digests([legacy('{"room": 3}')]) != prefix_digests([legacy('{"room": 4}')])

    def custom(text: str, **more: object) -> dict[str, object]:
        call = {"id": "c", "type": "custom", "custom": {"name": "run", "input": text}}
        return {"role": "assistant", "tool_calls": [{**call, **more}]}

    assert prefix_digests([custom("1", index=0)]) == prefix_digests([custom("1")])
    assert prefix_digests([custom("1")]) != prefix_digests([custom("2")])
