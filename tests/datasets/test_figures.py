"""Agreement on dataset cards: of people, of all annotators including machines, and in old cards."""

from uuid import UUID, uuid4

import pytest

from apps.datasets.figures import Agreement, agreement_rows
from apps.datasets.selection.votes import Vote

ANN, BEA, RULE, MODEL = uuid4(), uuid4(), uuid4(), uuid4()


def card(*pairs: dict[UUID, int]) -> dict[str, object]:
    agreement = Agreement(machines={RULE, MODEL})
    for strengths in pairs:
        agreement.add([Vote(str(who), who, strength, False, None) for who, strength in strengths.items()])
    return {"agreement": agreement.to_json()}


def test_people_who_agree_are_not_said_to_differ_because_a_machine_does() -> None:
    people, everybody = agreement_rows(card({ANN: 2, BEA: 1, RULE: -1}, {ANN: -1, BEA: -3, RULE: 1}, {ANN: 1, RULE: 1}))
    assert (people.whose, people.raw["value"], people.raw["items"]) == ("people's judgments", 1.0, 2)
    assert people.alpha["value"] == 1.0
    # In each of the first two pairs, one of three pairs of judgments agrees; in the third, the only one.
    assert everybody.raw["value"] == pytest.approx((1 / 3 + 1 / 3 + 1) / 3, abs=1e-4)
    assert (everybody.whose, everybody.raw["items"]) == ("all judgments, with models and rules", 3)


def test_only_those_are_told_of_who_judged() -> None:
    assert [row.whose for row in agreement_rows(card({ANN: 2, BEA: 1}))] == ["people's judgments"]
    assert [row.whose for row in agreement_rows(card({RULE: 2, MODEL: 1}))] == ["judgments of models and rules"]
    assert agreement_rows({"rows": {}}) == []


def test_without_a_second_judgment_it_is_said_why_nothing_is_known() -> None:
    [people] = agreement_rows(card({ANN: 2}, {BEA: 1}))
    assert (people.raw["value"], people.raw["undefined_because"]) == (None, "no item has two judgments yet")


def test_alpha_is_that_of_the_krippendorff_package() -> None:
    import krippendorff
    import numpy as np

    table = [[1, 2, None], [1, -1, 0], [0, 0, 3], [-1, -2, -1], [1, None, -1]]
    judgments = [
        {who: strength for who, strength in zip((ANN, BEA, UUID(int=1)), row, strict=True) if strength is not None}
        for row in table
    ]
    [people] = agreement_rows(card(*judgments))
    sides = np.sign(np.array(table, dtype=float)).T
    assert people.alpha["value"] == pytest.approx(krippendorff.alpha(sides, level_of_measurement="nominal"), abs=1e-4)


def test_a_card_from_before_is_read_as_what_it_was() -> None:
    [row] = agreement_rows({"agreement": {"pairs": 8, "observed": 0.75, "alpha": None}})
    assert (row.whose, row.raw["value"], row.raw["items"], row.level) == ("all judgments", 0.75, 8, "interval")
    assert row.alpha["value"] is None
