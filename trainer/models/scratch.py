"""A small language model from scratch: a tokenizer trained on the training text, and a Qwen3 with random weights.

It doesn't learn natural language, but it learns an environment's tool calls on a CPU: `make bench-learning` measures how well and how fast.
"""

from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl.chat_template_utils import qwen3_template

from contract.configs import ScratchConfig

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Never part of a message's text."""
MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Part of the text, one token each."""
TEMPLATE = Path(__file__).parents[1] / "rendering" / "small_template.jinja"
NAMES_NUMBERS_REST = Regex(r"@[\p{L}.]+|[\p{L}_]+|\p{N}{1,3}|[^\p{L}\p{N}_@]+|@")
"""Names, numbers, and punctuation never share a token, so that an id such as f37 is tokenized the same everywhere. A frequent number is
a single token, which can be copied in one step, whereas digits must each be located by the previous one. The constant part of an address
after its number may be a single token."""
COPYING = 2.0
"""Scale of the copying initialization of attention heads."""


def train_tokenizer(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of at most `size` tokens with a ChatML template. Any text can be encoded."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(NAMES_NUMBERS_REST, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(MARKS),
        special_tokens=list(CONTROL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False
    )
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in MARKS])
    tokenizer.chat_template = TEMPLATE.read_text(encoding="utf-8")
    tokenizer.response_template = qwen3_template
    return tokenizer


def make_model(config: ScratchConfig, tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """A Qwen3 of the given shape with random weights, the same for the same seed."""
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        Qwen3Config(
            vocab_size=-(-len(tokenizer) // 8) * 8,
            hidden_size=config.hidden,
            intermediate_size=config.intermediate,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.heads,
            head_dim=config.hidden // config.heads,
            initializer_range=config.initializer_range,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
        )
    )
    initialize_copying_heads(model)
    return model


@torch.no_grad()
def initialize_copying_heads(model: Qwen3ForCausalLM) -> None:
    """Initialize each head's output projection as its transposed value projection times COPYING, so that a head writes what it attends to.

    After the mimetic initialization of Trockman and Kolter (2023, arXiv:2305.09828), who initialize the products of value and
    output projections as found in trained transformers. Copying ids from tool results is the first skill such a model has to learn.
    """
    for layer in model.model.layers:
        attention = layer.self_attn
        attention.o_proj.weight.copy_(COPYING * attention.v_proj.weight.T)
