"""Code that may never end is interrupted, whatever it catches."""

from contextlib import suppress
from pathlib import Path

import pytest

from tests.trainer.policies import save_policy
from trainer.failures import ConfigFailure
from trainer.rendering import templates
from trainer.rendering.time_limit import TookTooLong, time_limit


def test_what_catches_every_exception_ends_too():
    def endless() -> None:
        while True:
            with suppress(Exception):
                while True:
                    pass

    with pytest.raises(TookTooLong), time_limit(0.1):
        endless()


def test_what_ends_in_time_is_left_alone():
    with time_limit(60):
        assert sum(range(1000)) == 499_500


def test_a_chat_template_that_never_ends_is_refused_when_its_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from transformers import AutoTokenizer

    save_policy(tmp_path, 0)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.chat_template = "{% for i in range(99999) %}" * 4 + "{% endfor %}" * 4
    monkeypatch.setattr(templates, "PROBING_SECONDS", 0.5)
    with pytest.raises(ConfigFailure, match="chat template was still writing"):
        templates.prepare_template(tokenizer)
