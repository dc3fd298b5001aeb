"""SWE-bench instances, and prompts that contain their issues."""

import time

import pytest

from apps.ingest.normalization.swe_bench import instance_environment, issue_of


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("django__django-11099", "swe-bench"),
        ("a.b__c__d-e-1", "swe-bench"),
        ("django__django", "swe-agent"),
        ("django-11099", "swe-agent"),
        ("__django-1", "swe-agent"),
        ("django__-1", "swe-agent"),
        ("django__dj ango-1", "swe-agent"),
        ("django__django-1x", "swe-agent"),
    ],
)
def test_an_instance_is_told_by_its_spelling(name: str, environment: str) -> None:
    assert instance_environment(name) == environment


@pytest.mark.parametrize(
    ("prompt", "issue"),
    [
        ("Solve it.\nISSUE: \nIt breaks.\n\nAlways.\n  INSTRUCTIONS:\nEdit files.", "It breaks.\n\nAlways."),
        ("ISSUE:\nIt breaks.", "ISSUE:\nIt breaks."),
        ("TISSUE:\na\nINSTRUCTIONS:", "TISSUE:\na\nINSTRUCTIONS:"),
        ("<pr_description>\nConsider the following PR description:\nIt breaks.</pr_description> Go.", "It breaks."),
        ("<pr_description>It breaks.", "<pr_description>It breaks."),
    ],
)
def test_an_issue_is_taken_out_of_its_prompt(prompt: str, issue: str) -> None:
    assert issue_of(prompt) == issue


@pytest.mark.parametrize(
    "text", ["_" * 50_000, "__-1" * 20_000 + "x", "ISSUE:\n" * 50_000, "ISSUE:\n" + "\n" * 200_000]
)
def test_text_that_repeats_itself_takes_no_longer_than_other_text(text: str) -> None:
    before = time.process_time()
    assert (instance_environment(text), issue_of(text)) == ("swe-agent", text)
    assert time.process_time() - before < 5
