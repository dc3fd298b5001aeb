"""Breaks a function in one place: the slips that people make, each as a change of one token in its syntax tree."""

import ast
import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

MAX_ROUNDS = 3000
SWAPPED: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.FloorDiv: (ast.Mod,),
    ast.Mod: (ast.FloorDiv,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
CONFUSED = {"max": "min", "min": "max", "upper": "lower", "lower": "upper"}


class TooManyRounds(Exception):
    """A loop that a bug made endless."""


ENDLESS = {"raised": TooManyRounds.__name__}


def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def mutate_once(tree: ast.Module, rng: random.Random) -> ast.Module:
    """The function with one slip somewhere."""
    candidates = [(number, change) for number, node in enumerate(ast.walk(tree)) for change in mutations(node)]
    number, change = rng.choice(candidates)
    mutant = copy.deepcopy(tree)
    change(list(ast.walk(mutant))[number])
    return mutant


def mutations(node: ast.AST) -> Iterator[Callable[[Any], None]]:
    """Ways to get this node wrong, each a change to its copy."""
    match node:
        case ast.Compare(ops=[operator]):
            yield from (setting("ops", [other()]) for other in SWAPPED.get(type(operator), ()))
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) | ast.BoolOp(op=operator):
            yield from (setting("op", other()) for other in SWAPPED.get(type(operator), ()))
        case ast.Constant(value=bool(truth)):
            yield setting("value", not truth)
        case ast.Constant(value=int(number)):
            yield setting("value", number + 1)
            if number > 0:
                yield setting("value", number - 1)
        case ast.Name(id=name) if name in CONFUSED:
            yield setting("id", CONFUSED[name])
        case ast.Attribute(attr=name) if name in CONFUSED:
            yield setting("attr", CONFUSED[name])


def setting(field: str, value: object) -> Callable[[Any], None]:
    return lambda node: setattr(node, field, value)


def outcomes(tree: ast.Module, function: str, calls: list[list[Any]]) -> list[Any]:
    """What one of our own functions, broken or not, returns for each call; the exception's name if it raises.

    Only for our own programs: they run in this process, and only endless loops are interrupted.
    """
    counted = Counting().visit(copy.deepcopy(tree))
    rounds = [0]

    def count() -> None:
        rounds[0] += 1
        if rounds[0] > MAX_ROUNDS:
            raise TooManyRounds

    scope: dict[str, Any] = {"__count_round": count}
    exec(compile(ast.fix_missing_locations(counted), "<program>", "exec"), scope)
    answers = []
    for arguments in calls:
        rounds[0] = 0
        try:
            answers.append(scope[function](*copy.deepcopy(arguments)))
        except Exception as error:
            answers.append({"raised": type(error).__name__})
    return answers


class Counting(ast.NodeTransformer):
    """Makes every loop count its iterations."""

    def visit_While(self, node: ast.While) -> ast.While:
        self._count(node)
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        self._count(node)
        return node

    def _count(self, node: ast.While | ast.For) -> None:
        self.generic_visit(node)
        node.body.insert(0, ast.parse("__count_round()").body[0])
