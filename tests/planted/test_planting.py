"""Each kind of change on a small function, and what is refused."""

import ast
import os
import subprocess
import sys

import pytest

from planted.changes import always, argument, first, instead, never, result, without
from planted.planting import Bug, PlantingError, changed, is_kernel, source_of
from planted.warm import TESTS

TOY = '''
SCALE = 2


class Shop:
    """A class."""

    def cost(self, price, number=1):
        """A docstring."""
        total = price * number
        if number > 10 and price > 1:
            total -= 1
        return total + 1 if number else 0

    def costs(self, prices):
        for price in prices:
            yield self.cost(price, number=2)


def largest(values):
    kept = [value for value in values if value > 0]
    return max(kept, default=0), len(kept)


def ordered(values):
    found = [*values]
    found.sort()
    return found


def outer(x):
    def inner(y):
        return y + x

    return inner(x) * SCALE
'''


def bug(function, change):
    return Bug("a bug", function, change, "test")


def run(function, change, call):
    """Value of a call in the module, without and with the bug."""
    values = []
    for tree in (ast.parse(TOY), changed(bug(function, change), TOY)):
        names = {}
        exec(compile(tree, "toy", "exec"), names)
        values.append(eval(call, names))
    return tuple(values)


@pytest.mark.parametrize(
    ("function", "change", "call", "values"),
    [
        ("Shop.cost", result("2 * it"), "Shop().cost(3)", (4, 8)),
        ("Shop.cost", result("it + it"), "Shop().cost(3)", (4, 8)),
        ("Shop.costs", result("-it"), "list(Shop().costs([3]))", ([7], [-7])),
        ("outer", result("0"), "outer(3)", (12, 0)),
        ("outer.inner", result("0"), "outer(3)", (12, 0)),
        ("Shop.cost", never("number > 10"), "Shop().cost(3, 20)", (60, 61)),
        ("Shop.cost", always("number > 10"), "Shop().cost(3, 2)", (7, 6)),
        ("Shop.cost", never("number"), "Shop().cost(3, 20)", (60, 0)),
        ("largest", always("value > 0"), "largest([-1])", ((0, 0), (-1, 1))),
        ("largest", always("number > 0"), "largest([-1])", ((0, 0), (-1, 1))),
        ("ordered", without("found.sort()"), "ordered([2, 1])", ([1, 2], [2, 1])),
        ("ordered", without("listed.sort(...)"), "ordered([2, 1])", ([1, 2], [2, 1])),
        ("Shop.cost", instead("price * number", "it + price"), "Shop().cost(3)", (4, 7)),
        ("Shop.cost", instead("cost * count", "cost"), "Shop().cost(3, 2)", (7, 4)),
        ("largest", instead("max(...)", "it + 1"), "largest([5])", ((5, 1), (6, 1))),
        ("largest", instead("max(_, default=0)", "min(_)"), "largest([5, 3])", ((5, 2), (3, 2))),
        ("Shop.costs", argument("number", "it + 1"), "list(Shop().costs([3]))", ([7], [10])),
        ("Shop.cost", first("price = 0"), "Shop().cost(3)", (4, 1)),
        ("SCALE", instead("2", "3"), "outer(3)", (12, 18)),
        ("Shop", instead("number > 10", "True"), "Shop().cost(3, 2)", (7, 6)),
    ],
)
def test_changes(function, change, call, values):
    assert run(function, change, call) == values


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("path")
    (folder / "toyshop").mkdir()
    (folder / "toyshop" / "__init__.py").touch()
    (folder / "toyshop" / "one.py").write_text(TOY)
    (folder / "toyshop" / "two.py").write_text(
        "def largest(values):\n    return max(values)\n\n\ndef outer(x):\n    return x\n"
    )
    sys.path.append(str(folder))
    yield "toyshop"
    sys.path.remove(str(folder))


@pytest.mark.parametrize(
    ("function", "change", "said"),
    [
        ("Shop.price", result("0"), "'a bug': toyshop has no Shop.price"),
        ("Shop.cost", never("price < 1"), r"'a bug': never\('price < 1'\) does not apply to Shop.cost in toyshop.one"),
        ("Shop.cost", result("it"), r"'a bug': result\('it'\) does not apply"),
        ("largest", never("values"), "does not apply to largest in toyshop.one and toyshop.two"),
        ("outer", result("0"), "applies to outer in toyshop.one and toyshop.two"),
    ],
)
def test_bugs_that_cannot_be_planted_are_refused_by_name(package, function, change, said):
    with pytest.raises(PlantingError, match=said):
        source_of(bug(function, change), (package,))


def test_the_module_is_that_to_which_the_change_applies(package):
    assert source_of(bug("largest", never("value > 0")), (package,)).module == "toyshop.one"
    assert source_of(bug("largest", instead("max(values)", "0")), (package,)).module == "toyshop.two"


def test_kernels_are_known():
    assert is_kernel(Bug("", "advance", never("in_state"), ""))
    assert not is_kernel(Bug("", "Luck.poisson", result("0"), ""))


def test_a_process_and_its_children_have_the_bug():
    """Also children with an environment of their own; nothing but the bug has changed."""
    code = """
import os, subprocess, sys
from planted.bugs import BUGS
from planted.planting import plant
plant(next(bug for bug in BUGS if bug.function == "_inverse_poisson"))
ask = "from jmdp.base import luck_by_purpose; print(luck_by_purpose._inverse_poisson(0.5, 40.0))"
exec(ask)
for env in (None, {**os.environ, "PYTHONPATH": sys.argv[1]}):
    print(subprocess.check_output([sys.executable, "-c", ask], env=env, text=True).strip())
"""
    source = str(TESTS.parent / "src")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), source])}
    out = subprocess.check_output([sys.executable, "-c", code, source], env=env, text=True)
    assert out.split() == ["41", "41", "41"]
