"""Every method is registered with every setting, and gives a result: the shortest test of all methods."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest

import jmdp
from hostile import tiny
from jmdp.methods.method import Method
from registry.methods import METHODS


def test_every_method_is_registered():
    def leaves(kind):
        ours = [child for child in kind.__subclasses__() if child.__module__.startswith("jmdp.methods")]
        return {leaf for child in ours for leaf in (leaves(child) or {child})}

    listed = {getattr(jmdp, name) for name in METHODS}
    assert leaves(Method) == listed
    assert set(METHODS) == set(jmdp.methods.METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_is_registered(name):
    fields = dataclasses.fields(getattr(jmdp, name))
    assert set(METHODS[name].settings) == {field.name for field in fields}
    required = {field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING}
    assert ("seed" in required) == METHODS[name].needs_seed
    assert ("state" in required) == METHODS[name].one_state


@pytest.mark.parametrize("name", METHODS)
def test_it_gives_a_result(name):
    method = getattr(jmdp, name)(**METHODS[name].settings)
    problem = tiny.problem()
    if METHODS[name].contract is None:
        problem["model"] = jmdp.simulators.TabularSimulator(problem["model"])
    result = jmdp.evaluate(**problem, method=method, throw=False, progress=False)
    assert result.method == method
    assert result.outcome.name in repr(result)


def test_the_registry_imports_nothing_large():
    code = "import registry.methods, sys; assert not {'jax', 'numba', 'scipy'} & set(sys.modules)"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
