"""The conditions of rules: a subset of Python expressions over facts, with three truth values.

A condition is text in a record (``speculative and fraction >= 0.97``), so it can be shown, tested
and checked for names nobody defined. A fact may be *unknown*; what depends on it is then unknown
too (Kleene's logic), and a rule fires only on true. ``None`` is different: it is the known absence
of a value, and an ordering against it is false.
"""

from __future__ import annotations

import ast
import operator
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["UNKNOWN", "Unknown", "evaluate", "names_used"]


class Unknown(Enum):
    """The type of :data:`UNKNOWN`."""

    UNKNOWN = "unknown"

    def __bool__(self) -> bool:
        raise TypeError("an unknown fact is neither true nor false")


UNKNOWN: Final = Unknown.UNKNOWN
"""A fact that could not be established."""

_ORDER: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate(
    expression: str, facts: Mapping[str, object], calls: Mapping[str, Callable[..., object]]
) -> object:
    """Evaluate a condition; the result of a logical one is True, False or :data:`UNKNOWN`.

    Raises:
        ValueError: the expression uses something that conditions do not have (a mistake in a rule).
        KeyError: it names a fact or function that does not exist.
    """
    return _value(_parsed(expression), facts, calls)


def names_used(expression: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the facts and the functions that a condition names."""
    tree = _parsed(expression)
    functions = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return frozenset(names - functions), frozenset(functions)


@cache
def _parsed(expression: str) -> ast.expr:
    return ast.parse(" ".join(expression.split()), mode="eval").body


def _value(
    node: ast.expr, facts: Mapping[str, object], calls: Mapping[str, Callable[..., object]]
) -> object:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return facts[name]
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return tuple(_value(item, facts, calls) for item in items)
        case ast.BoolOp():
            return _logical(node, facts, calls)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _truth(_value(operand, facts, calls))
            return UNKNOWN if inner is UNKNOWN else not inner
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _value(operand, facts, calls)
            return UNKNOWN if inner is UNKNOWN else -_number(inner)
        case ast.BinOp():
            return _arithmetic(node, facts, calls)
        case ast.Compare():
            return _comparison(node, facts, calls)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return calls[name](*(_value(item, facts, calls) for item in arguments))
        case _:
            raise ValueError(f"a condition cannot contain {type(node).__name__}")


def _logical(
    node: ast.BoolOp, facts: Mapping[str, object], calls: Mapping[str, Callable[..., object]]
) -> object:
    decisive = isinstance(node.op, ast.Or)
    unknown = False
    for item in node.values:
        value = _truth(_value(item, facts, calls))
        if value is UNKNOWN:
            unknown = True
        elif value is decisive:
            return decisive
    return UNKNOWN if unknown else not decisive


def _truth(value: object) -> object:
    return UNKNOWN if value is UNKNOWN else bool(value)


def _arithmetic(
    node: ast.BinOp, facts: Mapping[str, object], calls: Mapping[str, Callable[..., object]]
) -> object:
    left, right = _value(node.left, facts, calls), _value(node.right, facts, calls)
    if UNKNOWN in (left, right):
        return UNKNOWN
    if left is None or right is None:
        return None
    function = _ARITHMETIC.get(type(node.op))
    if function is None:
        raise ValueError(f"a condition cannot contain {type(node.op).__name__}")
    divides = isinstance(node.op, (ast.FloorDiv, ast.Mod))
    return None if divides and right == 0 else function(_number(left), _number(right))


def _comparison(
    node: ast.Compare, facts: Mapping[str, object], calls: Mapping[str, Callable[..., object]]
) -> object:
    left = _value(node.left, facts, calls)
    unknown = False
    for kind, item in zip(node.ops, node.comparators, strict=True):
        right = _value(item, facts, calls)
        result = _compared(kind, left, right)
        if result is False:
            return False
        unknown = unknown or result is UNKNOWN
        left = right
    return UNKNOWN if unknown else True


def _compared(kind: ast.cmpop, left: object, right: object) -> object:
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if isinstance(kind, (ast.Eq, ast.Is)):
        return left == right
    if isinstance(kind, (ast.NotEq, ast.IsNot)):
        return left != right
    if isinstance(kind, (ast.In, ast.NotIn)):
        if not isinstance(right, (tuple, str, frozenset)):
            return isinstance(kind, ast.NotIn)
        inside = (
            isinstance(left, str) and left in right if isinstance(right, str) else left in right
        )
        return inside if isinstance(kind, ast.In) else not inside
    function = _ORDER.get(type(kind))
    if function is None:
        raise ValueError(f"a condition cannot contain {type(kind).__name__}")
    if left is None or right is None:
        return False
    return function(_number(left), _number(right))


def _number(value: object) -> float:
    if isinstance(value, (int, float)):
        return value
    raise ValueError(f"{value!r} is not a number")
