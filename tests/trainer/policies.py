"""Small policies, and the conversations on which tests train them."""

from functools import cache
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM
from trl.chat_template_utils import qwen3_chat_template

from contract.configs import ScratchConfig
from trainer.models.scratch import make_model, train_tokenizer

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "description": "Find a file.",
            "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        },
    }
]
SMALLEST = ScratchConfig(layers=1, hidden=32, intermediate=64, heads=2, vocabulary=400)
TEXTS = ["Find the budget and say where it is.", '{"name": "find", "arguments": {"name": "budget"}}', "It is f12."]


def call(tool: str, /, **arguments: object) -> dict[str, Any]:
    function = {"name": tool, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}


SYSTEM = {"role": "system", "content": "Be brief."}
ASK = {"role": "user", "content": "Find the budget."}
FIRST = call("find", name="budget")
RESULT = {"role": "tool", "tool_call_id": "c1", "content": '[{"file": "f12"}]'}
AGAIN = {"role": "user", "content": "And the offer?"}
SECOND = call("find", name="offer")
NOTHING = {"role": "tool", "tool_call_id": "c1", "content": '{"error": "no offer"}'}
ANSWER = {"role": "assistant", "content": "There is none."}


@cache
def small_tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(TEXTS, SMALLEST.vocabulary)


def qwen3_tokenizer() -> PreTrainedTokenizerFast:
    """The same vocabulary with Qwen3's chat template, as a downloaded model would have it."""
    tokenizer = train_tokenizer(TEXTS, SMALLEST.vocabulary)
    tokenizer.chat_template = qwen3_chat_template
    tokenizer.response_template = None
    return tokenizer


def small_model(seed: int = 0) -> Qwen3ForCausalLM:
    return make_model(SMALLEST, small_tokenizer(), seed)


def save_policy(folder: Path, seed: int = 0) -> Path:
    small_model(seed).save_pretrained(folder)
    small_tokenizer().save_pretrained(folder)
    return folder


def preference_rows(count: int) -> list[dict[str, Any]]:
    """Multi-turn rows of different lengths: a shared prefix, then tool calls, results, and answers."""
    rows = []
    for number in range(count):
        result = {**RESULT, "content": f'[{{"file": "f{number}"}}]'}
        prompt = [SYSTEM, {"role": "user", "content": "Find the budget. " * (1 + number % 3)}]
        chosen = [call("find", name="budget"), result, {"role": "assistant", "content": f"It is f{number}."}]
        rejected = [call("find", name=f"offer {number}"), NOTHING, ANSWER]
        rows.append({"prompt": prompt, "chosen": chosen, "rejected": rejected, "tools": TOOLS})
    return rows
