"""Changes of what a function does, stated on its syntax tree.

Neither the formatting nor the rest of a statement matters, and a local variable may have another name than in the list
of bugs. If a function has the stated part several times, all are changed.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Change:
    """Another behaviour of a function.

    `edit` changes its syntax tree. If its second argument is true, local variables may have other names than here, and
    the part that is changed must then occur once.
    """

    text: str
    edit: Callable[[ast.AST, bool], None]


def result(new: str) -> Change:
    """Return (in a generator: yield) this expression instead, in which the former value is called `it`."""

    def edit(function: ast.AST, renamed: bool) -> None:
        nodes = [node for node in _own(function) if isinstance(node, (ast.Return, ast.Yield))]
        values = [node for node in nodes if node.value is not None]
        values = [node for node in values if isinstance(node, ast.Yield)] or values
        for node in values:
            node.value = _with(new, {"it": node.value})

    return Change(f"result({new!r})", edit)


def never(part: str) -> Change:
    """Take the condition that contains this part as false: of an if, a while, a ternary or a comprehension."""
    return Change(f"never({part!r})", lambda *given: _decide(*given, part, False))


def always(part: str) -> Change:
    """Take the condition that contains this part as true."""
    return Change(f"always({part!r})", lambda *given: _decide(*given, part, True))


def without(part: str) -> Change:
    """Leave out the statement that contains this part: a call, an assignment or a return."""

    def edit(function: ast.AST, renamed: bool) -> None:
        found = _Matches(function, part, renamed)
        places = [
            (body, i)
            for body in _bodies(function)
            for i, statement in enumerate(body)
            if not hasattr(statement, "body") and any(found.of(node) is not None for node in ast.walk(statement))
        ]
        for body, i in _sure(places, renamed):
            body[i] = ast.copy_location(ast.Pass(), body[i])

    return Change(f"without({part!r})", edit)


def instead(old: str, new: str) -> Change:
    """Evaluate another expression instead of this one, in which the former is called `it`.

    `_` is any expression (and the same one in `new`), ``f(a, ...)`` a call with any further arguments.
    """

    def edit(function: ast.AST, renamed: bool) -> None:
        found = _Matches(function, old, renamed)
        places = [(put, node, names) for put, node in _places(function) if (names := found.of(node)) is not None]
        for put, node, names in _sure(places, renamed):
            put(_with(new, {**names, "it": node}))

    return Change(f"instead({old!r}, {new!r})", edit)


def argument(name: str, new: str) -> Change:
    """Pass this expression as the keyword argument of this name, in which the former value is called `it`."""

    def edit(function: ast.AST, renamed: bool) -> None:
        found = [node for node in ast.walk(function) if isinstance(node, ast.keyword) and node.arg == name]
        for node in found:
            node.value = _with(new, {"it": node.value})

    return Change(f"argument({name!r}, {new!r})", edit)


def first(statements: str) -> Change:
    """Execute these statements before the function."""

    def edit(function: ast.AST, renamed: bool) -> None:
        assert isinstance(function, ast.FunctionDef)
        after_docstring = 1 if ast.get_docstring(function) else 0
        function.body[after_docstring:after_docstring] = ast.parse(statements).body

    return Change(f"first({statements!r})", edit)


class _Matches:
    """Where a part occurs in a function. If `renamed`, a name that the function lacks may be any one local name."""

    def __init__(self, function: ast.AST, text: str, renamed: bool) -> None:
        self._part = ast.parse(text, mode="eval").body
        names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        self._locals = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
        self._locals |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
        known = {node.id for node in names} | self._locals | set(dir(builtins))
        asked = {node.id for node in ast.walk(self._part) if isinstance(node, ast.Name)}
        self._renamed = {name for name in asked - known if renamed and name[0].islower()}

    def of(self, node: ast.AST) -> dict[str, ast.expr] | None:
        """What the names of the part stand for in this node; None if it is not this part."""
        names: dict[str, ast.expr] = {}
        alone = isinstance(self._part, ast.Name)  # one name that the function lacks could be any
        return names if self._equal(self._part, node, names) and not (alone and names) else None

    def _equal(self, part: Any, node: Any, names: dict[str, ast.expr]) -> bool:
        if isinstance(part, ast.Name) and part.id == "_" and isinstance(node, ast.expr):
            names.setdefault("_", node)
            return True
        if isinstance(part, ast.Name) and part.id in self._renamed:
            known = isinstance(node, ast.Name) and node.id in self._locals
            return known and names.setdefault(part.id, node).id == node.id  # type: ignore[attr-defined]
        if type(part) is not type(node):
            return False
        if isinstance(part, ast.Call) and part.args and ast.unparse(part.args[-1]) == "...":
            given = len(part.args) - 1
            part, node = [part.func, *part.args[:given]], [node.func, *node.args[:given]]
        if isinstance(part, list):
            return len(part) == len(node) and all(self._equal(p, n, names) for p, n in zip(part, node, strict=True))
        if isinstance(part, ast.AST):
            fields = [field for field in part._fields if field not in ("ctx", "type_comment", "kind")]
            return all(self._equal(getattr(part, field), getattr(node, field), names) for field in fields)
        return bool(part == node)


def _sure(places: list[T], renamed: bool) -> list[T]:
    """None if names are guessed and fit several places."""
    return [] if renamed and len(places) > 1 else places


def _with(text: str, names: dict[str, ast.expr]) -> ast.expr:
    """Expression of a text with these names replaced; a value that occurs several times is computed once."""
    new = ast.parse(text, mode="eval").body
    often = sum(isinstance(node, ast.Name) and node.id == "it" for node in ast.walk(new)) > 1
    if often:
        new = ast.Call(
            ast.Lambda(ast.arguments([], [ast.arg("it")], None, [], [], None, []), new), [names.pop("it")], []
        )
    holder = ast.Expr(new)
    for put, node in list(_places(holder)):
        if isinstance(node, ast.Name) and node.id in names:
            put(deepcopy(names[node.id]))
    return holder.value


def _places(root: ast.AST) -> Iterator[tuple[Callable[[ast.expr], None], ast.expr]]:
    """Every value below a node, with a function that puts another in its place, outermost first."""
    for parent in ast.walk(root):
        for field, value in ast.iter_fields(parent):
            if _is_value(value):
                yield (lambda new, parent=parent, field=field: setattr(parent, field, new)), value
            elif isinstance(value, list):
                for i, item in enumerate(value):
                    if _is_value(item):
                        yield (lambda new, items=value, i=i: items.__setitem__(i, new)), item


def _is_value(node: Any) -> bool:
    return isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield child
            yield from _own(child)


def _bodies(function: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value


def _decide(function: ast.AST, renamed: bool, part: str, answer: bool) -> None:
    """Set the condition that contains a part; if conditions are nested, the innermost."""
    found = _Matches(function, part, renamed)

    def contains(node: ast.AST) -> bool:
        return any(found.of(inner) is not None for inner in ast.walk(node))

    conditions = [place for place in _conditions(function) if contains(place[1])]
    innermost = [
        (put, node)
        for put, node in conditions
        if not any(other is not node and other in ast.walk(node) for _, other in conditions)
    ]
    for put, node in _sure(innermost, renamed):
        put(ast.copy_location(ast.Constant(answer), node))


def _conditions(function: ast.AST) -> Iterator[tuple[Callable[[ast.expr], None], ast.expr]]:
    for node in ast.walk(function):
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            yield (lambda new, node=node: setattr(node, "test", new)), node.test
        if isinstance(node, ast.comprehension):
            for i, test in enumerate(node.ifs):
                yield (lambda new, tests=node.ifs, i=i: tests.__setitem__(i, new)), test
