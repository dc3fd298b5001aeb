"""Models from scratch: their vocabulary is built from text, they're reproducible for a seed, and can write any text."""

import torch
from transformers import AutoTokenizer

from contract.configs import ScratchConfig
from tests.trainer.policies import SMALLEST, TEXTS, small_model, small_tokenizer
from trainer.models.scratch import COPYING, MARKS, make_model, train_tokenizer


def test_any_text_survives_the_tokenizer():
    tokenizer = train_tokenizer([], 300)
    text = 'Größe 漢字 \U0001f600 \t "quoted" <tool_call> f37\n'
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_marks_and_numbers_are_one_token_each_wherever_they_stand():
    texts = [f"f{number} m{number} a{number}@office.test" for number in range(10, 100)] * 3
    tokenizer = train_tokenizer(texts, 500)
    assert all(len(tokenizer(mark)["input_ids"]) == 1 for mark in MARKS)
    assert {len(tokenizer(str(number))["input_ids"]) for number in range(10, 100)} == {1}
    number = tokenizer("37")["input_ids"]
    assert tokenizer("f37,")["input_ids"][1:2] == number
    assert tokenizer('"m37"')["input_ids"][2:3] == number
    assert len(tokenizer("a37@office.test")["input_ids"]) == 3


def test_the_tokenizer_reads_tool_calls_after_a_trip_to_disk(tmp_path):
    small_tokenizer().save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.chat_template == small_tokenizer().chat_template
    assert loaded.response_template == small_tokenizer().response_template
    assert (loaded.eos_token, loaded.pad_token) == ("<|im_end|>", "<|endoftext|>")


def test_a_seed_fixes_the_weights():
    first, same, other = small_model(seed=3), small_model(seed=3), small_model(seed=4)
    name = "model.layers.0.self_attn.q_proj.weight"
    assert torch.equal(first.state_dict()[name], same.state_dict()[name])
    assert not torch.equal(first.state_dict()[name], other.state_dict()[name])


def test_the_shape_is_the_configured_one():
    model = make_model(ScratchConfig(), train_tokenizer(TEXTS, 400), seed=0)
    config = model.config
    assert (config.num_hidden_layers, config.tie_word_embeddings) == (2, True)
    assert config.vocab_size % 8 == 0
    assert model.config.eos_token_id == train_tokenizer(TEXTS, 400).eos_token_id
    assert SMALLEST.layers == len(small_model().model.layers)


def test_a_fresh_head_writes_what_it_attends_to():
    for layer in small_model().model.layers:
        attention = layer.self_attn
        assert torch.equal(attention.o_proj.weight, COPYING * attention.v_proj.weight.T)
