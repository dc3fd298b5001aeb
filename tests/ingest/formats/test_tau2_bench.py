"""tau2-bench: the user has tools as well, and the agent sees none of them."""

from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.rows import read, refusal

ROW = EXAMPLES["tau2-bench"]


def test_what_the_user_calls_stays_outside_the_agents_context():
    record = read("tau2-bench", ROW)
    roles = [[message["role"] for message in step.context] for step in record.steps]
    assert roles == [["assistant", "user"], ["tool"]]
    assert record.closing == [{"role": "user", "content": "It works. ###STOP###"}]
    assert [message["role"] for message in record.info["of_the_user"]] == ["user", "tool"]


def test_calls_results_and_outcome():
    record = read("tau2-bench", ROW)
    assert record.steps[0].message["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"n": 1}}}
    ]
    assert record.steps[1].context == [{"role": "tool", "tool_call_id": "c1", "content": "no line", "is_error": True}]
    assert (record.reward, record.success, record.termination) == (1.0, True, "user_stop")
    assert (record.task.key, record.task.environment, record.policy) == ("t1", "tau2-bench/telecom", "m")
    assert "no signal" in record.task.instruction


def test_a_bad_simulation_is_named():
    broken = {**ROW, "simulations": [*ROW["simulations"], {"messages": 3}]}
    assert refusal("tau2-bench", broken)[0].startswith("Simulation 2: ")


def test_what_tau2_says_in_the_agents_place_is_context():
    greeting = {"role": "assistant", "content": "Hi! How can I help you today?"}
    asked, answered = {"role": "user", "content": "No signal."}, {"role": "assistant", "content": "Restart it."}
    used = {"prompt_tokens": 9, "completion_tokens": 3}

    def steps_of(*messages):
        simulation = {**ROW["simulations"][0], "messages": list(messages)}
        return [step.message["content"] for step in read("tau2-bench", {**ROW, "simulations": [simulation]}).steps]

    assert steps_of(greeting, asked, answered) == ["Restart it."]
    # The turns that a task begins with report no usage.
    begun = {"role": "assistant", "content": "Have you checked it?"}
    assert steps_of(begun, asked, {**answered, "usage": used}) == ["Restart it."]
    assert steps_of(begun, asked, answered) == ["Have you checked it?", "Restart it."]
    assert steps_of({**greeting, "usage": used}, asked) == ["Hi! How can I help you today?"]


def test_reasoning_is_read_from_the_models_response():
    thought = {"message": {"content": "Restart it.", "reasoning_content": "It may be stuck."}}
    for raw in (thought, {"choices": [thought]}):
        answer = {"role": "assistant", "content": "Restart it.", "raw_data": raw}
        simulation = {**ROW["simulations"][0], "messages": [{"role": "user", "content": "No signal."}, answer]}
        [step] = read("tau2-bench", {**ROW, "simulations": [simulation]}).steps
        assert step.message["reasoning_content"] == "It may be stuck."
