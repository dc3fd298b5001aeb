"""The arm to which a unit is assigned, for any arms and shares."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from apps.gateway.splits.rendezvous import draw, shares_of

SPLIT = UUID(int=17)
ARMS = [UUID(int=number) for number in range(1, 6)]
UNITS = [f"unit {number}" for number in range(2000)]

weights = st.dictionaries(st.sampled_from(ARMS), st.integers(1, 1000), min_size=1)
unit = st.text()


def drawn(shares: dict[UUID, float], split: UUID = SPLIT) -> list[UUID]:
    return [draw(split, shares, unit) for unit in UNITS]


@given(weights, unit)
def test_the_same_unit_has_the_same_arm_in_whatever_order_arms_stand(shares: dict[UUID, int], unit: str) -> None:
    arm = draw(SPLIT, shares, unit)
    assert arm in shares
    assert draw(SPLIT, dict(reversed(shares.items())), unit) == arm


@given(weights, unit, st.integers(2, 50))
def test_only_the_ratio_of_weights_matters(shares: dict[UUID, int], unit: str, factor: int) -> None:
    assert draw(SPLIT, {arm: weight * 2**factor for arm, weight in shares.items()}, unit) == draw(SPLIT, shares, unit)


@given(weights, st.sampled_from(ARMS), st.integers(1, 1000), unit)
def test_with_more_weight_an_arm_only_wins_units(shares: dict[UUID, int], arm: UUID, more: int, unit: str) -> None:
    """Units only move to that arm; none moves between two others."""
    after = {**shares, arm: shares.get(arm, 0) + more}
    assert draw(SPLIT, after, unit) in (draw(SPLIT, shares, unit), arm)


@given(weights.filter(lambda shares: len(shares) > 1), unit)
def test_an_arm_that_goes_leaves_the_others_their_units(shares: dict[UUID, int], unit: str) -> None:
    gone = draw(SPLIT, shares, unit)
    for arm in shares.keys() - {gone}:
        assert draw(SPLIT, {policy: weight for policy, weight in shares.items() if policy != arm}, unit) == gone


def test_each_arm_has_its_share() -> None:
    counts = drawn({ARMS[0]: 3, ARMS[1]: 1})
    assert 0.72 < counts.count(ARMS[0]) / len(counts) < 0.78  # 0.75, ± 3 standard errors of 0.0097


def test_as_few_units_move_as_there_must() -> None:
    before, after = drawn({ARMS[0]: 95, ARMS[1]: 5}), drawn({ARMS[0]: 80, ARMS[1]: 20})
    moved = sum(one != other for one, other in zip(before, after, strict=True)) / len(UNITS)
    assert 0.12 < moved < 0.18  # 0.15 of all units change sides, ± 3.7 standard errors of 0.008


def test_two_splits_draw_independently() -> None:
    shares = {ARMS[0]: 1.0, ARMS[1]: 1.0}
    same = sum(one == other for one, other in zip(drawn(shares), drawn(shares, UUID(int=18)), strict=True))
    assert 0.46 < same / len(UNITS) < 0.54


def test_a_canary_has_its_percentage_and_the_others_share_what_it_leaves() -> None:
    assert shares_of({"a": 3, "b": 1}, 0.2) == {"a": 0.6000000000000001, "b": 0.2}
