"""The prefix tree against a plain model: a set of checkpoints, longest prefix wins."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from qwen_tui.demo_engine.prefix_tree import Node, PrefixTree

TOKENS = st.lists(st.integers(0, 1), max_size=24)


@settings(max_examples=300)
@given(page=st.sampled_from([1, 2, 4]), prompts=st.lists(TOKENS, max_size=12), asked=TOKENS)
def test_match_is_the_longest_kept_prefix(
    page: int, prompts: list[list[int]], asked: list[int]
) -> None:
    tree = PrefixTree(page)
    kept: set[tuple[int, ...]] = set()
    paths: set[tuple[int, ...]] = set()
    for prompt in prompts:
        length = len(prompt) // page * page
        if length:
            tree.keep_state(tree.insert(prompt, length))
            kept.add(tuple(prompt[:length]))
            paths |= {tuple(prompt[:n]) for n in range(page, length + 1, page)}
    expected = max(
        (len(k) for k in kept if tuple(asked[: len(k)]) == k),
        default=0,
    )
    assert tree.match(asked)[0] == expected
    assert tree.tokens == len(paths) * page
    assert tree.checkpoints == len(kept)
    assert tree.evictable_tokens == tree.tokens


def test_locked_paths_survive_eviction() -> None:
    tree = PrefixTree(2)
    first, second = [1, 1, 2, 2, 3, 3], [1, 1, 9, 9]
    node = tree.insert(first, 6)
    tree.keep_state(node)
    tree.lock(node)
    tree.keep_state(tree.insert(second, 4))
    assert tree.evict_tokens(100) == 2
    assert tree.match(first)[0] == 6
    assert tree.match(second)[0] == 0
    tree.lock(node, -1)
    assert tree.evict_tokens(100) == 6
    assert (tree.tokens, tree.checkpoints) == (0, 0)


def test_least_recently_used_goes_first() -> None:
    tree = PrefixTree(1)
    for start in (1, 2, 3):
        tree.keep_state(tree.insert([start, start], 2))
    tree.match([1, 1])
    assert tree.evict_checkpoint()
    assert [tree.match([n, n])[0] for n in (1, 2, 3)] == [2, 0, 2]


def test_a_split_keeps_the_locks() -> None:
    tree = PrefixTree(1)
    node = tree.insert([1, 2, 3, 4], 4)
    tree.lock(node)
    tree.insert([1, 2, 9], 3)
    parent = node.parent
    assert isinstance(parent, Node)
    assert parent.locks == 1
    assert tree.evictable_tokens == 1
