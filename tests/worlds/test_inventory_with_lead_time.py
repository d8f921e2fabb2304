"""The inventory with lead time: days by hand, and what is known of its answers."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.errors import SettingsError


def goes(model, state, action, demand):
    s, a = model.states.index(state), model.actions.index(action)
    return model.states.name(int(model.next_state[s, demand, a])), float(model.reward[s, demand, a])


def test_days_by_hand():
    model = jmdp.worlds.inventory_with_lead_time(
        10, most_ordered=4, price=5, unit_cost=2, order_cost=1, holding_cost=0.5, shortage_cost=3
    ).model
    # 4 on hand and 2 arrive; demand 5 is met, 1 is left; 3 are ordered.
    assert goes(model, "4 | 2,0", "order 3", 5) == ("1 | 0,3", 5 * 5 - 2 * 3 - 1 - 0.5 * 1)
    # Nothing on hand or due; the 4 that are due tomorrow do not help today.
    assert goes(model, "0 | 0,4", "order 0", 2) == ("0 | 4,0", -3.0 * 2)
    # Position 9 of 10: of 4 units one fits.
    assert goes(model, "3 | 4,2", "order 4", 0) == ("7 | 2,1", -2.0 - 1 - 0.5 * 7)


def test_an_order_arrives_after_the_lead_time():
    for lead_time in (1, 2, 3):
        model = jmdp.worlds.inventory_with_lead_time(5, lead_time=lead_time, most_ordered=2).model
        state = "0 | " + ",".join("0" * lead_time)
        state, _ = goes(model, state, "order 2", 0)
        for _ in range(lead_time - 1):
            state, _ = goes(model, state, "order 0", 0)
        assert state == "0 | " + ",".join(["2", *["0"] * (lead_time - 1)])
        assert goes(model, state, "order 0", 0)[0].startswith("2 | ")


def test_without_demand_or_orders_nothing_moves():
    world = jmdp.worlds.inventory_with_lead_time(6, most_ordered=2, mean_demand=0.0, holding_cost=1.0, discount=0.5)
    result = jmdp.evaluate(world.model, world.policies["constant"], jmdp.Local())
    assert result.mean[world.model.states.index("3 | 0,0"), 0] == pytest.approx(-3 / 0.5)


def test_more_lead_time_earns_less():
    """Orders known earlier are worth less: the mean from an empty shop falls with the lead time."""
    means = []
    for lead_time in (1, 2):
        world = jmdp.worlds.inventory_with_lead_time(12, lead_time=lead_time, most_ordered=4)
        result = jmdp.evaluate(world.model, world.policies["base_stock"], jmdp.Local())
        means.append(world.start @ (result.mean * world.policies["base_stock"].probs).sum(axis=1))
    assert means[0] > means[1]


def test_the_default_has_its_size_and_its_start():
    world = jmdp.worlds.inventory_with_lead_time()
    assert world.model.shape == (1053, 12, 9)
    begins = [world.model.states.name(int(s)) for s in np.flatnonzero(world.start)]
    assert begins == [f"{stock} | 0,0" for stock in range(21)]
    assert world.start.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"lead_time": 0}, "lead_time is 0. Give a whole number from 1 to 3."),
        ({"lead_time": 4}, "lead_time is 4"),
        ({"capacity": 0}, "capacity is 0"),
        ({"most_ordered": 30}, "most_ordered is 30. Give a whole number from 1 to 20."),
        ({"mean_demand": -1.0}, "mean_demand is -1.0"),
        ({"capacity": 100, "most_ordered": 60}, "Give a smaller capacity, most_ordered or lead_time"),
    ],
)
def test_wrong_settings_are_refused(settings, says):
    with pytest.raises(SettingsError, match=says.replace(".", r"\.")):
        jmdp.worlds.inventory_with_lead_time(**settings)
