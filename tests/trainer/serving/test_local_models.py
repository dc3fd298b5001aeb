"""This installation's own server serves models made by training runs, and returns the sampled tokens."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import torch
from safetensors.torch import save_file

from tests.trainer.policies import save_policy, small_model
from trainer.models import completeness
from trainer.serving import local_models
from trainer.serving.local_models import LocalModels, bytes_a_token, load

KEY = "the-gateways-key"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path


def trained(runs: Path, seed: int = 0) -> str:
    """The id of a training run with a model."""
    run = str(uuid4())
    save_policy(runs / run / "model", seed)
    return run


def talk(models: LocalModels, talking: Any) -> Any:
    """The result of `talking(client)`."""

    async def held() -> Any:
        transport = httpx.ASGITransport(models.application())
        headers = {"Authorization": f"Bearer {KEY}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://models/v1", headers=headers) as client:
            return await talking(client)

    return asyncio.run(held())


def chat(model: str, *messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    chat_messages = messages or ({"role": "user", "content": "Find the budget."},)
    return {"model": model, "messages": list(chat_messages), "max_tokens": 6, **more}


def ask(models: LocalModels, body: Any, **options: Any) -> httpx.Response:
    async def once(client: httpx.AsyncClient) -> httpx.Response:
        return await client.post("chat/completions", json=body, **options)

    response: httpx.Response = talk(models, once)
    return response


def test_a_reply_has_the_tokens_that_the_model_sampled_with_their_log_probabilities(runs: Path):
    run = trained(runs)
    reply = ask(LocalModels(runs, key=KEY), chat(run, temperature=0)).json()
    [choice] = reply["choices"]
    prompt, sampled = reply["prompt_token_ids"], choice["token_ids"]
    assert reply["usage"] == {
        "prompt_tokens": len(prompt), "completion_tokens": len(sampled), "total_tokens": len(prompt) + len(sampled),
    }  # fmt: skip
    with torch.inference_mode():
        logits = small_model(0).eval()(torch.tensor([prompt + sampled])).logits[0, len(prompt) - 1 : -1]
    expected = logits.float().log_softmax(-1)
    assert expected.argmax(-1).tolist() == sampled
    logprobs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
    assert logprobs == pytest.approx(
        [float(row[token]) for row, token in zip(expected, sampled, strict=True)], abs=1e-3
    )


def test_a_chat_goes_on_after_the_very_tokens_that_were_sampled(runs: Path):
    async def two_turns(client: httpx.AsyncClient) -> tuple[Any, Any]:
        headers = {"X-Session-Id": "one"}
        question = {"role": "user", "content": "Find the budget."}
        first = (await client.post("chat/completions", json=chat(run, question), headers=headers)).json()
        answer = first["choices"][0]["message"]
        again = chat(run, question, answer, {"role": "user", "content": "And now?"})
        return first, (await client.post("chat/completions", json=again, headers=headers)).json()

    run = trained(runs)
    first, second = talk(LocalModels(runs, key=KEY), two_turns)
    before = first["prompt_token_ids"] + first["choices"][0]["token_ids"]
    assert second["prompt_token_ids"][: len(before)] == before


def test_a_seed_says_the_same_again_and_each_request_has_its_own_sampling(runs: Path):
    async def several(client: httpx.AsyncClient) -> list[Any]:
        bodies = [
            chat(run, seed=3, temperature=2.0),
            chat(run, temperature=0),
            chat(run, seed=3, temperature=2.0),
            chat(run, temperature=0, max_tokens=2),
        ]
        replies = await asyncio.gather(*(client.post("chat/completions", json=body) for body in bodies))
        return [reply.json()["choices"][0]["token_ids"] for reply in replies]

    run = trained(runs)
    seeded, likeliest, again, short = talk(LocalModels(runs, key=KEY), several)
    assert seeded == again != likeliest
    assert short == likeliest[:2]


def test_a_streamed_reply_says_what_a_whole_one_does(runs: Path):
    run, models = trained(runs), LocalModels(runs, key=KEY)
    whole = ask(models, chat(run, temperature=0)).json()
    streamed = ask(models, chat(run, temperature=0, stream=True))
    assert streamed.headers["content-type"].startswith("text/event-stream")
    *chunks, done = [line[6:] for line in streamed.text.splitlines() if line.startswith("data: ")]
    assert done == "[DONE]"
    ids = [
        token
        for chunk in map(json.loads, chunks)
        for choice in chunk["choices"]
        for token in choice.get("token_ids", [])
    ]
    assert ids == whole["choices"][0]["token_ids"]


def test_only_as_many_models_are_kept_as_fit(runs: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local_models, "MAX_LOADED", 2)
    models = LocalModels(runs, key=KEY)
    first, second, third = (trained(runs, seed) for seed in range(3))
    for run in (first, second, first, third):
        assert ask(models, chat(run)).is_success

    async def listed(client: httpx.AsyncClient) -> Any:
        return (await client.get("models")).json()

    assert [card["id"] for card in talk(models, listed)["data"]] == [first, third]


def test_models_that_answer_somebody_are_not_joined_by_more_than_fit(runs: Path, monkeypatch: pytest.MonkeyPatch):
    """A model unloaded while in use would stay in memory anyway."""
    monkeypatch.setattr(local_models, "MAX_LOADED", 2)
    models, loaded = LocalModels(runs, key=KEY), []
    monkeypatch.setattr(
        local_models, "load", lambda folder, name, stop: loaded.append(name) or load(folder, name, stop)
    )

    async def at_once(client: httpx.AsyncClient) -> list[int]:
        replies = await asyncio.gather(*(client.post("chat/completions", json=chat(trained(runs))) for _ in range(5)))
        return [reply.status_code for reply in replies]

    assert sorted(talk(models, at_once)) == [200, 200, 503, 503, 503]
    assert len(loaded) == 2
    assert ask(models, chat(trained(runs))).is_success  # those are idle by now


def test_a_model_goes_on_loading_for_clients_that_lose_patience_and_come_back(
    runs: Path, monkeypatch: pytest.MonkeyPatch
):
    run, loaded = trained(runs), []
    began, may_end = threading.Event(), threading.Event()

    def slow(folder: Path, name: str, stop: Any) -> Any:
        loaded.append(name)
        began.set()
        may_end.wait(60)
        return load(folder, name, stop)

    monkeypatch.setattr(local_models, "load", slow)

    async def twice(client: httpx.AsyncClient) -> httpx.Response:
        impatient = asyncio.create_task(client.post("chat/completions", json=chat(run)))
        await asyncio.to_thread(began.wait, 60)
        impatient.cancel()
        await asyncio.gather(impatient, return_exceptions=True)
        back = asyncio.create_task(client.post("chat/completions", json=chat(run)))
        await asyncio.sleep(0.1)
        may_end.set()
        return await back

    assert talk(LocalModels(runs, key=KEY), twice).is_success
    assert loaded == [run]


def test_weights_of_all_models_have_a_limit_together(runs: Path, monkeypatch: pytest.MonkeyPatch):
    first, second = trained(runs, 0), trained(runs, 1)
    size = sum(file.stat().st_size for file in (runs / first / "model").glob("*.safetensors"))
    monkeypatch.setattr(local_models, "MAX_BYTES", size * 3 // 2)
    models = LocalModels(runs, key=KEY)
    for run in (first, second):
        assert ask(models, chat(run)).is_success
    assert list(models._slots) == [second]


@pytest.mark.parametrize("most", [{"MAX_LOADED": 2}, {"MAX_CHATS": 2}])
def test_one_workspace_does_not_keep_the_others_out(runs: Path, monkeypatch: pytest.MonkeyPatch, most: dict[str, int]):
    for name, number in most.items():
        monkeypatch.setattr(local_models, name, number)
    models = LocalModels(runs, key=KEY)
    first, second, third, others = (trained(runs) for _ in range(4))
    with models._slot(first, "one"):
        with models._slot(second, "one"):  # alone, it may use everything
            with pytest.raises(local_models.Refused), models._slot(others, "another"):
                pass
            with pytest.raises(local_models.Refused), models._slot(third, "one"):
                pass
        with pytest.raises(local_models.Refused), models._slot(second, "one"):
            pass
        with models._slot(others, "another"):
            pass
        monkeypatch.setattr(local_models, "ASKS_SECONDS", 0.0)
        with models._slot(second, "one"):
            pass


@pytest.mark.parametrize("limit", ["MAX_CHATS", "MAX_PER_MODEL"])
def test_more_chats_than_it_takes_are_told_to_come_back(runs: Path, monkeypatch: pytest.MonkeyPatch, limit: str):
    monkeypatch.setattr(local_models, limit, 3)
    run = trained(runs)

    async def at_once(client: httpx.AsyncClient) -> list[int]:
        replies = await asyncio.gather(*(client.post("chat/completions", json=chat(run)) for _ in range(5)))
        return [reply.status_code for reply in replies]

    assert sorted(talk(LocalModels(runs, key=KEY), at_once)) == [200, 200, 200, 503, 503]


def test_chats_take_no_more_memory_than_there_is_room_for(runs: Path, monkeypatch: pytest.MonkeyPatch):
    run, models = trained(runs), LocalModels(runs, key=KEY)
    usage = ask(models, chat(run, temperature=0)).json()["usage"]
    chats = models._slots[run].chats
    assert chats is not None
    rows: list[int] = []
    sampled = chats.engine._sample_batch

    def noted(requests: list[Any], is_awaited: Any) -> Any:
        rows.append(len(requests))
        return sampled(requests, is_awaited)

    monkeypatch.setattr(chats.engine, "_sample_batch", noted)
    chats.engine.token_limit = 2 * (usage["prompt_tokens"] + 6)

    async def at_once(client: httpx.AsyncClient) -> list[int]:
        replies = await asyncio.gather(*(client.post("chat/completions", json=chat(run)) for _ in range(5)))
        return [reply.status_code for reply in replies]

    assert talk(models, at_once) == [200] * 5
    assert rows == [2, 2, 1]
    assert sum(agent.remembered for agent in chats._remembered) <= chats.engine.token_limit
    long = ask(models, chat(run, {"role": "user", "content": "Find the budget. " * 40}))
    assert (long.status_code, "there is memory for" in long.json()["error"]["message"]) == (400, True)


def test_what_a_token_takes_is_told_by_the_models_form():
    config = small_model(0).config
    assert bytes_a_token(config, 4) == 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 4


def test_nothing_is_sampled_for_those_who_have_gone(runs: Path, monkeypatch: pytest.MonkeyPatch):
    run, models = trained(runs), LocalModels(runs, key=KEY)
    ask(models, chat(run))
    chats = models._slots[run].chats
    assert chats is not None
    lengths: list[int] = []
    monkeypatch.setattr(chats.engine, "_sample", lambda requests, is_awaited: lengths.append(len(requests)))

    async def leave() -> None:
        body = json.dumps(chat(run)).encode()
        messages = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]
        headers = [(b"authorization", f"Bearer {KEY}".encode())]
        path = "/v1/chat/completions"
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}

        async def receive() -> dict[str, Any]:
            return messages.pop(0)

        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await models.application()(scope, receive, send)
        assert sent[0]["status"] == 499
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(leave())
    assert lengths == []


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"model": "../../etc"}, 404, "no such model"),
        ({"model": str(uuid4())}, 404, "no such model"),
        ({"model": 3}, 400, "Expected `model`"),
        ({"messages": []}, 400, "`messages`"),
        ({"messages": ["hello"]}, 400, "can't read this chat"),
        ({"temperature": 9}, 400, "temperature"),
        ({"temperature": "hot"}, 400, "temperature"),
        ({"max_tokens": -1}, 400, "max_tokens: Input"),
        ({"max_completion_tokens": -1}, 400, "max_completion_tokens: Input"),
        ({"seed": "three"}, 400, "seed"),
        ({"n": 4}, 400, "n: this server doesn't have it"),
        ({"stop": ["Observation:"]}, 400, "stop: this server"),
        ({"top_k": 20}, 400, "top_k: this server"),
        ({"tool_choice": "required"}, 400, "tool_choice: this server"),
    ],
)
def test_what_it_cannot_do_is_refused_in_words(runs: Path, change: dict[str, Any], status: int, words: str):
    response = ask(LocalModels(runs, key=KEY), {**chat(trained(runs)), **change})
    assert response.status_code == status
    assert words in response.json()["error"]["message"]


def test_parameters_that_change_nothing_are_no_reason_to_refuse(runs: Path):
    neutral = {"n": 1, "stop": None, "tool_choice": "auto", "presence_penalty": 0.0, "top_k": -1, "logit_bias": {}}
    assert ask(LocalModels(runs, key=KEY), {**chat(trained(runs)), **neutral}).is_success


def test_without_the_gateways_key_nothing_is_said(runs: Path):
    models = LocalModels(runs, key=KEY)
    for header in ("", "Bearer ", "Bearer rs_somebody", f"Basic {KEY}"):
        assert ask(models, chat(trained(runs)), headers={"Authorization": header}).status_code == 401


def test_a_model_that_is_too_large_is_for_another_server(runs: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local_models, "LARGEST_BYTES", 1000)
    response = ask(LocalModels(runs, key=KEY), chat(trained(runs)))
    assert (response.status_code, response.json()["error"]["code"]) == (400, "model_too_large")


def test_a_broken_model_is_said_to_be_one(runs: Path):
    run = trained(runs)
    (runs / run / "model" / "model.safetensors").write_bytes(b"\0" * 64)
    response = ask(LocalModels(runs, key=KEY), chat(run))
    assert (response.status_code, response.json()["error"]["code"]) == (400, "model_not_loadable")


def test_a_chat_template_that_never_ends_ends_its_own_chat_alone(runs: Path, monkeypatch: pytest.MonkeyPatch):
    """It once blocked the event loop, and with it the chats of all models."""
    monkeypatch.setattr(local_models, "TEMPLATE_SECONDS", 5.0)
    endless, other = trained(runs), trained(runs, 1)
    config = runs / endless / "model" / "tokenizer_config.json"
    template = runs / endless / "model" / "chat_template.jinja"
    loop = (
        "{% if 'Hang' in messages[0].content %}"
        + "{% for i in range(99999) %}" * 4
        + "{% endfor %}" * 4
        + "{% endif %}"
    )
    if template.exists():
        template.write_text(loop + template.read_text())
    else:
        tokenizer_config = json.loads(config.read_text())
        config.write_text(json.dumps(tokenizer_config | {"chat_template": loop + tokenizer_config["chat_template"]}))
    models = LocalModels(runs, key=KEY)
    assert ask(models, chat(endless)).status_code == 200

    async def both(client: httpx.AsyncClient) -> list[httpx.Response]:
        hang = {"role": "user", "content": "Hang."}
        hanging = asyncio.create_task(client.post("chat/completions", json=chat(endless, hang)))
        await asyncio.sleep(0)
        answered = await client.post("chat/completions", json=chat(other))
        return [answered, await hanging]

    answered, refused = talk(models, both)
    assert answered.status_code == 200
    assert refused.status_code == 400
    assert "the model's chat template took longer than 5 s" in refused.json()["error"]["message"]


def test_a_server_whose_event_loop_hangs_ends_so_that_it_is_started_anew():
    """For example, a pattern that never finishes holds the interpreter, and no thread could interrupt it."""
    code = """
import re, socket
from trainer.serving import local_models
local_models.SILENT_SECONDS = 1
async def app(scope, receive, send):
    re.match("(a+)+$", "a" * 60 + "b")
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
config = local_models.uvicorn.Config(app, fd=listener.fileno(), lifespan="off", log_config=None)
local_models._Server(config, local_models.StopRequest()).run()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{port}/", timeout=60)
        assert server.wait(60) == -signal.SIGALRM


GPT = {
    "model_type": "gpt_neo",
    "num_hidden_layers": 2,
    "attention_types": [[["global"], 2]],
    "hidden_size": 64,
    "num_heads": 4,
    "layer_types": None,
}


@pytest.mark.parametrize(
    ("larger", "problem"),
    [
        (
            {"num_hidden_layers": 50, "layer_types": ["full_attention"] * 50, "max_window_layers": 50},
            "parameters, more",
        ),
        ({"num_hidden_layers": 2000}, "2,000 num_hidden_layers, more"),
        ({"num_hidden_layers": 10**9}, "1,000,000,000 num_hidden_layers, more"),  # which its config would list
        ({"model_type": "bart", "encoder_layers": 1, "decoder_layers": 2000}, "2,000 decoder_layers, more"),
        ({"model_type": "olmoe", "num_experts": 10**6}, "1,000,000 num_experts, more"),
        ({"layer_types": ["full_attention"] * 2000}, "2,000 entries of layer_types, more"),
        ({**GPT, "vocab_size": 8, "max_position_embeddings": 8192}, "values in buffers, more"),  # a mask of each layer
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_model_that_is_larger_than_its_files_is_not_loaded(runs: Path, larger: dict[str, Any], problem: str):
    """The rest would be random numbers, in memory that no limit counts."""
    run = trained(runs)
    file = runs / run / "model" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **larger}))
    if "buffers" in problem:
        save_file({"filler": torch.zeros(2 << 20)}, file.with_name("model.safetensors"))
    assert f"{problem} than its files hold" in refusal(runs, run)


def refusal(runs: Path, run: str) -> str:
    """Why a model can't be loaded."""
    reply = ask(LocalModels(runs, key=KEY), chat(run))
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "model_not_loadable")
    return str(reply.json()["error"]["message"])


def test_a_header_that_claims_more_than_its_file_has_does_not_count(runs: Path):
    """transformers reads only the files that it knows, but all were counted."""
    run = trained(runs)
    folder = runs / run / "model"
    claim = json.dumps({"x": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4]}}).encode()
    (folder / "extra.safetensors").write_bytes(len(claim).to_bytes(8, "little") + claim)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 10**6}))
    assert "parameters, more than its files hold" in refusal(runs, run)


def test_files_besides_the_weights_have_a_limit(runs: Path, monkeypatch: pytest.MonkeyPatch):
    run = trained(runs)
    monkeypatch.setattr(completeness, "MAX_OTHER_BYTES", 1000)
    assert "its files besides the weights are too large" in refusal(runs, run)


def test_a_long_chat_is_read_in_pieces_and_answered_the_same(runs: Path, monkeypatch: pytest.MonkeyPatch):
    """Its activations would take any amount of memory: a model of 25 MB with wide layers took 2.7 GB for 7,000 tokens."""
    long = {"role": "user", "content": "Find the budget. " * 40}
    run = trained(runs)
    models = LocalModels(runs, key=KEY)
    whole = ask(models, chat(run, long, temperature=0)).json()
    monkeypatch.setattr(local_models, "PREFILL_BYTES", 1 << 18)
    models = LocalModels(runs, key=KEY)
    ask(models, chat(run))
    chats = models._slots[run].chats
    assert chats is not None
    widths: list[int] = []
    chats.engine.model.register_forward_pre_hook(
        lambda _, _args, inputs: widths.append(inputs["input_ids"].size(1)), with_kwargs=True
    )
    pieces = ask(models, chat(run, long, temperature=0)).json()
    assert pieces["choices"][0]["token_ids"] == whole["choices"][0]["token_ids"]
    assert max(widths) < whole["usage"]["prompt_tokens"] == sum(widths) - len(whole["choices"][0]["token_ids"]) + 1
