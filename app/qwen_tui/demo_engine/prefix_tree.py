"""The prefix cache: a radix tree over token ids, page-aligned, with recurrent-state checkpoints.

A hybrid model can continue only from a position whose recurrent state was kept, so a match ends at
the deepest *checkpoint* on the path, not at the deepest shared token. Each checkpoint occupies one
state slot until it is evicted. Nodes that a running request stands on are locked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Node", "PrefixTree"]


@dataclass(eq=False, slots=True)
class Node:
    """A run of tokens behind its parent."""

    key: list[int]
    parent: Node | None
    children: dict[tuple[int, ...], Node] = field(default_factory=dict)
    checkpoint: bool = False
    """The recurrent state after the last token of this node is kept in a slot."""
    locks: int = 0
    used: int = 0


class PrefixTree:
    """Cached prefixes of one pool.

    Attributes:
        tokens: Tokens held by the tree.
        checkpoints: State slots held by the tree.
    """

    def __init__(self, page_size: int) -> None:
        self.page = page_size
        self.root = Node([], None)
        self.tokens = 0
        self.checkpoints = 0
        self._clock = count(1)

    def match(self, tokens: Sequence[int]) -> tuple[int, Node]:
        """Return the length and node of the longest usable prefix (it ends at a checkpoint)."""
        node, depth = self.root, 0
        best: tuple[int, Node] = (0, self.root)
        now = next(self._clock)
        while True:
            child = node.children.get(self._page_at(tokens, depth))
            if child is None:
                break
            shared = self._shared(child.key, tokens, depth)
            if shared < len(child.key):
                break
            node, depth = child, depth + shared
            node.used = now
            if node.checkpoint:
                best = (depth, node)
        return best

    def insert(self, tokens: Sequence[int], length: int) -> Node:
        """Hold ``tokens[:length]`` (a multiple of the page) and return the node that ends there."""
        node, depth = self.root, 0
        now = next(self._clock)
        while depth < length:
            head = self._page_at(tokens, depth)
            child = node.children.get(head)
            if child is None:
                child = Node(list(tokens[depth:length]), node, used=now)
                node.children[head] = child
                self.tokens += len(child.key)
            else:
                shared = min(self._shared(child.key, tokens, depth), length - depth)
                if shared < len(child.key):
                    child = self._split(child, shared)
            child.used = now
            node, depth = child, depth + len(child.key)
        return node

    def keep_state(self, node: Node) -> None:
        """Make the end of ``node`` a checkpoint (the caller has a free slot)."""
        if node is not self.root and not node.checkpoint:
            node.checkpoint = True
            self.checkpoints += 1

    def lock(self, node: Node, by: int = 1) -> None:
        """Protect a path from eviction; ``by=-1`` releases it."""
        step: Node | None = node
        while step is not None and step is not self.root:
            step.locks += by
            step = step.parent

    @property
    def evictable_tokens(self) -> int:
        """Tokens that no running request stands on."""
        return sum(len(n.key) for n in self._nodes() if n.locks == 0)

    @property
    def evictable_checkpoints(self) -> int:
        """Checkpoints that no running request stands on."""
        return sum(1 for n in self._nodes() if n.checkpoint and n.locks == 0)

    def evict_tokens(self, wanted: int) -> int:
        """Drop least recently used leaves until ``wanted`` tokens are free; return the number."""
        freed = 0
        while freed < wanted:
            leaf = min(
                (n for n in self._nodes() if not n.children and n.locks == 0),
                key=lambda n: n.used,
                default=None,
            )
            if leaf is None:
                break
            freed += len(leaf.key)
            self._drop(leaf)
        return freed

    def evict_checkpoint(self) -> bool:
        """Give back the least recently used state slot; False when all are in use."""
        node = min(
            (n for n in self._nodes() if n.checkpoint and n.locks == 0),
            key=lambda n: n.used,
            default=None,
        )
        if node is None:
            return False
        node.checkpoint = False
        self.checkpoints -= 1
        if not node.children:
            self._drop(node)
        return True

    def clear(self) -> None:
        """Forget everything (only when nothing is locked)."""
        self.root = Node([], None)
        self.tokens = 0
        self.checkpoints = 0

    def _drop(self, leaf: Node) -> None:
        parent = leaf.parent
        if parent is None:
            return
        del parent.children[tuple(leaf.key[: self.page])]
        self.tokens -= len(leaf.key)
        self.checkpoints -= leaf.checkpoint

    def _split(self, node: Node, at: int) -> Node:
        parent = node.parent
        upper = Node(node.key[:at], parent, locks=node.locks, used=node.used)
        upper.children[tuple(node.key[at : at + self.page])] = node
        if parent is not None:
            parent.children[tuple(node.key[: self.page])] = upper
        node.key = node.key[at:]
        node.parent = upper
        return upper

    def _page_at(self, tokens: Sequence[int], depth: int) -> tuple[int, ...]:
        return tuple(tokens[depth : depth + self.page])

    def _shared(self, key: list[int], tokens: Sequence[int], depth: int) -> int:
        limit = min(len(key), len(tokens) - depth)
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if key[low:middle] == tokens[depth + low : depth + middle]:
                low = middle
            else:
                high = middle - 1
        return low // self.page * self.page

    def _nodes(self) -> Iterator[Node]:
        stack = list(self.root.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())
