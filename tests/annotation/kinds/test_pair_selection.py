from itertools import combinations
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from apps.annotation.kinds.pair_selection import ALIKE, Candidate, Group, Pair, Pairing, Traits, draw, preview

TASK, X, Y = UUID(int=1000), UUID(int=1001), UUID(int=1002)


def run(
    n: int,
    *,
    policy: UUID | None = None,
    success: bool | None = None,
    reward: float | None = None,
    course: int | None = None,
) -> Candidate:
    return Candidate(UUID(int=n), Traits(policy, success, reward), n if course is None else course)


def drawn(pairing: Pairing, *runs: Candidate) -> list[tuple[int, int]]:
    return [(pair.a.int, pair.b.int) for pair in draw(pairing, TASK, runs)]


def counted(pairing: Pairing, *runs: Candidate) -> dict[Traits, Group]:
    groups: dict[Traits, Group] = {}
    for one in runs:
        traits = Traits(
            one.traits.policy if pairing.different_policies else None,
            one.traits.success if pairing.different_outcomes else None,
            one.traits.reward if pairing.different_outcomes else None,
        )
        before = groups.get(traits, Group(0, frozenset()))
        groups[traits] = Group(before.runs + 1, before.courses | {one.course})
    return groups


def test_all_pairs_of_a_task_are_every_two_runs_once():
    assert sorted(map(sorted, drawn(Pairing(), *map(run, range(5))))) == [
        list(two) for two in combinations(range(5), 2)
    ]


def test_so_many_pairs_a_task_are_the_same_whenever_they_are_drawn():
    runs = [run(n) for n in range(30)]
    three = drawn(Pairing(per_task=3, seed=7), *runs)
    assert len(set(three)) == 3
    assert drawn(Pairing(per_task=3, seed=7), *runs) == three
    assert drawn(Pairing(per_task=3, seed=8), *runs) != three


def test_a_few_pairs_of_a_huge_task_are_drawn_without_listing_them_all():
    runs = [run(n) for n in range(20_000)]  # 199,990,000 pairs
    assert len(drawn(Pairing(per_task=2), *runs)) == 2


def test_different_outcomes_pair_success_with_failure_and_reward_where_success_is_not_recorded():
    runs = [run(1, success=True), run(2, success=False), run(3, reward=0.5), run(4, reward=0.9), run(5)]
    assert drawn(Pairing(different_outcomes=True), *runs) == [(1, 2), (3, 4)]


def test_different_policies_leave_unknown_ones_out():
    runs = [run(1, policy=X), run(2, policy=X), run(3, policy=Y), run(4)]
    assert drawn(Pairing(different_policies=True), *runs) == [(1, 3), (2, 3)]


def test_the_preview_says_why_runs_pair_with_nothing():
    pairing = Pairing(different_outcomes=True, different_policies=True)
    tasks = [
        [run(1, policy=X, success=True), run(2, policy=Y, success=False), run(3, policy=Y)],
        [run(4, policy=X, success=True)],
        [run(5, policy=X, success=True), run(6, policy=X, success=False)],
        [run(7, policy=X, success=True), run(8, policy=Y, success=True), run(9, success=False)],
    ]
    result = preview(pairing, [counted(pairing, *task) for task in tasks])
    assert (result.tasks, result.runs, result.items) == (4, 9, 1)
    assert (result.paired_tasks, result.paired_runs) == (1, 2)
    assert result.unpaired == {
        "no outcome recorded": 1,
        "the only trajectory of its task in this selection": 1,
        "no trajectory of its task by another policy": 2,
        "no trajectory of its task differs in both policy and outcome": 2,
        "no policy recorded": 1,
    }


def test_of_runs_that_cannot_be_told_apart_the_oldest_stands_for_all():
    runs = [run(1, course=-1), run(2, course=-2), run(3, course=-1), run(4, course=-2), run(5, course=-3)]
    assert drawn(Pairing(), *runs) == [(1, 2), (1, 5), (2, 5)]


def test_runs_of_two_policies_that_cannot_be_told_apart_are_no_pair_and_others_take_its_place():
    ours = [run(n, policy=X, course=n) for n in range(1, 6)]
    theirs = [run(n + 10, policy=Y, course=n) for n in range(1, 6)]
    everything = drawn(Pairing(different_policies=True), *ours, *theirs)
    assert len(everything) == 20
    assert all(b != a + 10 for a, b in everything)
    for seed in range(30):
        assert len(drawn(Pairing(different_policies=True, per_task=19, seed=seed), *ours, *theirs)) == 19


def test_the_preview_says_that_runs_are_alike():
    twins = [run(1, policy=X, course=-1), run(2, policy=Y, course=-1)]
    for pairing in (Pairing(), Pairing(different_policies=True)):
        result = preview(pairing, [counted(pairing, *twins)])
        assert (result.runs, result.items, result.paired_runs, result.unpaired) == (2, 0, 0, {ALIKE: 2})
    result = preview(Pairing(), [counted(Pairing(), *twins, run(3))])
    assert (result.runs, result.items, result.paired_runs, result.unpaired) == (3, 1, 2, {ALIKE: 1})


runs_of_a_task = st.lists(
    st.tuples(
        st.builds(
            Traits,
            st.sampled_from([None, X, Y]),
            st.sampled_from([None, True, False]),
            st.sampled_from([None, 0.0, 1.0]),
        ),
        st.integers(0, 5),
    ),
    max_size=12,
)
pairings = st.builds(
    Pairing,
    per_task=st.none() | st.integers(1, 10),
    different_outcomes=st.booleans(),
    different_policies=st.booleans(),
    seed=st.integers(0, 100),
)


@given(runs_of_a_task, pairings)
def test_the_preview_counts_what_is_drawn_and_every_drawn_pair_is_allowed(
    known: list[tuple[Traits, int]], pairing: Pairing
):
    runs = [Candidate(UUID(int=n), traits, course) for n, (traits, course) in enumerate(known)]
    pairs = [(runs[pair.a.int], runs[pair.b.int]) for pair in draw(pairing, TASK, runs)]
    assert len({frozenset((a.id, b.id)) for a, b in pairs}) == len(pairs)
    assert all(a.course != b.course for a, b in pairs)
    assert all(pairing.allows(a.traits, b.traits) for a, b in pairs)
    assert preview(pairing, [counted(pairing, *runs)]).items == len(pairs)
    looked_at = counted(pairing, *runs)
    apart = [(traits, course) for traits, group in looked_at.items() for course in group.courses]
    allowed = sum(
        x_course != y_course and pairing.allows(x, y) for (x, x_course), (y, y_course) in combinations(apart, 2)
    )
    assert len(pairs) == min(allowed, pairing.per_task or allowed)


def test_a_shuffled_place_depends_on_the_seed_and_the_pair_alone():
    pair = Pair(TASK, X, Y)
    assert pair.shuffled(1) == pair.shuffled(1)
    assert pair.shuffled(1) != pair.shuffled(2)
    assert 0 <= pair.shuffled(1) < 2**63
