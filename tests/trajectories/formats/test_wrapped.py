"""Records inside an object."""

from apps.trajectories import formats
from tests.trajectories.formats.examples import EXAMPLES
from tests.trajectories.formats.rows import read, refusal


def test_the_records_are_read_as_what_they_are():
    inner = EXAMPLES["tau-bench"]
    row = {"config": {"model": "m"}, "results": [inner, {**inner, "trial": 2}]}
    assert [format.name for format in formats.known() if format.recognises(row)] == ["wrapped"]
    found = list(formats.named("wrapped").read(row, "gpt-4o-retail.json"))
    assert [record.info["trial"] for record in found] == [1, 2]
    assert read("wrapped", EXAMPLES["wrapped"]).reward == 1.0


def test_a_bad_element_is_named():
    row = {"results": [EXAMPLES["tau-bench"], {"traj": 3}]}
    assert refusal("wrapped", row)[0] == "Element 2: `traj` is a number."
