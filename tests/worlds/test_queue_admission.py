"""The queue: slots by hand, and what is known of its answers."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.errors import SettingsError

SMALL = {"servers": 2, "arrivals": (0.3, 0.2), "service": 0.25, "fees": (4.0, 1.0), "holding_cost": 0.5}


def goes(model, state, action, scenario):
    s, a = model.states.index(state), model.actions.index(action)
    return model.states.name(int(model.next_state[s, scenario, a])), float(model.reward[s, scenario, a])


def test_slots_by_hand():
    model = jmdp.worlds.queue_admission(4, **SMALL).model
    # Scenarios: who comes (nobody, class 1, class 2) × which server would end a service (none, the first, the second).
    np.testing.assert_allclose(
        model.prob[0].reshape(3, 3), np.outer([0.5, 0.3, 0.2], [0.5, 0.25, 0.25]), rtol=0, atol=1e-15
    )
    assert goes(model, "0 | class 1", "admit", 0) == ("1 | nobody", 4.0)
    assert goes(model, "0 | class 1", "reject", 3) == ("0 | class 1", 0.0)
    assert goes(model, "0 | class 1", "admit", 1) == ("0 | nobody", 4.0)  # served in the slot of the admission
    assert goes(model, "0 | class 1", "admit", 2) == ("1 | nobody", 4.0)  # the second server was idle
    assert goes(model, "3 | class 2", "admit", 8) == ("3 | class 2", 1.0 - 0.5 * 2)  # two of four wait
    assert goes(model, "4 | class 1", "admit", 0) == ("4 | nobody", -0.5 * 2)  # full


def test_nobody_at_the_door_leaves_nothing_to_decide():
    model = jmdp.worlds.queue_admission(4, **SMALL).model
    empty_door = [s for s in range(model.states.size) if model.states.name(s).endswith("nobody")]
    assert (model.reward[empty_door, :, 0] == model.reward[empty_door, :, 1]).all()
    assert (model.next_state[empty_door, :, 0] == model.next_state[empty_door, :, 1]).all()


def test_one_server_and_no_waiting_has_a_closed_form():
    """The server is a chain of two states, idle and busy."""
    arrival, service, gamma = 0.4, 0.3, 0.9
    world = jmdp.worlds.queue_admission(
        1, servers=1, arrivals=[arrival], service=service, fees=[1.0], holding_cost=0.0, discount=gamma
    )
    result = jmdp.evaluate(world.model, world.policies["always_admit"], jmdp.Local())
    # u: value of an idle server before the arrival is known, w: of a busy one. A busy slot ends with `service`.
    # u = a (1 + m γ u + (1 − m) γ w) + (1 − a) γ u;  w = m γ u + (1 − m) γ w.
    a, m = arrival, service
    left = np.array([[1 - gamma * (a * m + 1 - a), -a * (1 - m) * gamma], [-m * gamma, 1 - (1 - m) * gamma]])
    idle, _ = np.linalg.solve(left, [a, 0.0])
    assert result.mean[world.model.states.index("0 | nobody"), 0] == pytest.approx(gamma * idle)


def test_reserving_servers_pays_when_the_queue_is_overloaded():
    world = jmdp.worlds.queue_admission()
    start = int(world.start.argmax())
    assert world.model.states.name(start) == "0 | nobody"
    means = [
        jmdp.evaluate(world.model, world.policies[name], jmdp.Local()).mean[start, 0]
        for name in ("threshold", "half_full", "always_admit")
    ]
    assert means[0] > means[1] > means[2]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"room": 0}, "room is 0"),
        ({"servers": 31}, "servers is 31. Give a whole number from 1 to 30."),
        ({"service": 0.5}, "service is 0.5. Give a number from 0 to 0.333333."),
        ({"arrivals": (0.7, 0.7)}, "Give a probability for each class, with a sum up to 1."),
        ({"arrivals": ()}, "Give a probability for each class"),
        ({"arrivals": (-0.1, 0.7)}, "arrivals[0] is -0.1"),
        ({"fees": (1.0,)}, "1 fees for 2 classes of arrivals. Give one for each class."),
    ],
)
def test_wrong_settings_are_refused(settings, says):
    with pytest.raises(SettingsError) as error:
        jmdp.worlds.queue_admission(**settings)
    assert says in str(error.value)
