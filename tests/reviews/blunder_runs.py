"""Evidence: a planted blunder is ranked first by `Review.worst`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from review_worlds import best_actions, gymnasium_table, one_number

import jmdp

_FACTOR = 3.0
"""Least ratio of the regret of a blunder to the next largest one."""

_CLEAR = 4.0
"""Least regret in standard errors of the review."""

_PILOT = 400
"""Rollouts by which standard errors of regrets are found."""


@dataclass(frozen=True, eq=False)
class Setting:
    """An environment, a good policy, its true action values, and the rollouts of a review."""

    simulator: Any
    policy: Any
    truth: Any  # function of an observation and the review of its episode: q [A]
    samples: int
    settings: dict[str, Any]


def inventory() -> Setting:
    """The inventory world, whose policy has regrets of its own."""
    world = jmdp.worlds.inventory()
    policy = world.policies["base_stock"]
    q = np.asarray(jmdp.evaluate(world.model, policy, jmdp.Local()).mean)
    settings = {"starts": [0, 3, 6], "steps": range(30)}
    return Setting(world.model, policy, lambda s, _: q[int(s)], 128, settings)


def frozen_lake() -> Setting:
    """FrozenLake as a table, with its best policy."""
    env, _, _ = gymnasium_table("FrozenLake-v1")
    q, best = best_actions(env.unwrapped.P, 0.95)
    model = slipping_table(env.unwrapped.P, 0.95)
    policy = jmdp.TabularPolicy.deterministic(model, best)
    return Setting(model, policy, lambda s, _: q[int(s)], 256, {"starts": [0]})


def slipping_table(outcomes: Any, discount: float) -> jmdp.TabularJMDP:
    """The table P of FrozenLake, with one scenario for each direction in which the ice slips."""
    S, A = len(outcomes), len(outcomes[0])
    reward, following = np.zeros((S, 3, A)), np.zeros((S, 3, A), int)
    terminal = np.array([all(len(outcomes[s][a]) == 1 for a in range(A)) for s in range(S)])
    for s, k, a in np.ndindex(S, 3, A):
        if terminal[s]:
            following[s, k, a] = s
        else:
            _, following[s, k, a], reward[s, k, a], _ = outcomes[s][a][k]
    return jmdp.TabularJMDP(np.full((S, 3), 1 / 3), reward, following, discount, terminal)


def taxi() -> Setting:
    """Taxi in the rain, simulated by Gymnasium, with its best policy."""
    env, _, _ = gymnasium_table("Taxi-v4", is_rainy=True)
    q, best = best_actions(env.unwrapped.P, 0.9)
    return Setting(
        env,
        lambda s: int(best[int(s)]),
        lambda s, _: q[int(s)],
        16,
        {"discount": 0.9, "horizon": 30, "steps": range(6)},
    )


def blackjack() -> Setting:
    """Blackjack, simulated by Gymnasium, stopping at 17.

    The dealer's second card is part of the state though the policy does not see it, so the truth depends on it.
    """
    import gymnasium

    return Setting(
        gymnasium.make("Blackjack-v1"), stop_at_17, BlackjackValues().of_review, 512, {"discount": 1.0, "horizon": 20}
    )


def stop_at_17(hand: Any) -> int:
    return int(hand[0] < 17)


class BlackjackValues:
    """Values [stick, hit] of the policy that stops at 17, by recursion over an infinite deck.

    With `hidden`, the dealer's second card is known; otherwise they are averages over it.
    """

    cards = tuple(range(1, 10)) + (10,) * 4

    def __init__(self) -> None:
        self._dealt: dict[Any, dict[int, float]] = {}
        self._known: dict[Any, np.ndarray] = {}

    def __call__(self, hand: Any, hidden: int | None = None) -> np.ndarray:
        key = (*(int(x) for x in hand), hidden)
        if key not in self._known:
            player, dealer, usable = (int(x) for x in hand)
            hit = np.mean([self._after(player, dealer, bool(usable), card, hidden) for card in self.cards])
            self._known[key] = np.array([self._stick(player, dealer, hidden), hit])
        return self._known[key]

    def of_review(self, hand: Any, one: Any) -> np.ndarray:
        """Values in an episode, whose start draws the dealer's cards."""
        import gymnasium

        player = one.replay.player
        shock = player.plan.start_shock(jmdp.Shock.of_sample(one.seed, one.episode), 0)
        env = gymnasium.make("Blackjack-v1")
        env.reset(seed=int.from_bytes(shock.words[:4], "little"))
        shown, hidden = env.unwrapped.dealer
        assert shown == hand[1]
        return self(hand, int(hidden))

    def _after(self, player: int, dealer: int, usable: bool, card: int, hidden: int | None) -> float:
        hard = player - 10 * usable + card  # every ace counts 1
        soft = (usable or card == 1) and hard + 10 <= 21
        total = hard + 10 * soft
        if total > 21:
            return -1.0
        q = self((total, dealer, soft), hidden)
        return float(q[stop_at_17((total,))])

    def _stick(self, player: int, dealer: int, hidden: int | None) -> float:
        known = [dealer] if hidden is None else [dealer, hidden]
        ends = self._dealer(sum(known), 1 in known, len(known))
        return sum(p * float(np.sign(player - total)) for total, p in ends.items())

    def _dealer(self, hard: int, ace: bool, cards: int) -> dict[int, float]:
        """Distribution of the dealer's total; 0 if it is above 21."""
        total = hard + 10 * (ace and hard + 10 <= 21)
        if cards >= 2 and total >= 17:
            return {total if total <= 21 else 0: 1.0}
        key = hard, ace, min(cards, 2)
        if key not in self._dealt:
            found: dict[int, float] = {}
            for card in self.cards:
                for end, p in self._dealer(hard + card, ace or card == 1, cards + 1).items():
                    found[end] = found.get(end, 0.0) + p / 13
            self._dealt[key] = found
        return self._dealt[key]


SETTINGS = {"inventory": inventory, "FrozenLake": frozen_lake, "Taxi": taxi, "Blackjack": blackjack}


@dataclass
class Ranks:
    """Reviews with a planted blunder."""

    reviewed: int = 0
    first: int = 0  # ranked first
    mistakes: int = 0  # of those, judged a mistake
    ratio: float = np.inf  # smallest ratio of the blunder's regret to the next largest one
    clear: float = np.inf  # smallest regret of a blunder in standard errors


def ranked(name: str, episodes: int, seed: int = 0, most: int = 0) -> Ranks:
    """Plant a blunder into this many episodes and review each of them."""
    setting, rng, found = SETTINGS[name](), np.random.default_rng(seed), Ranks()
    errors: dict[Any, np.ndarray] = {}
    shared: dict[str, Any] = {"seed": seed, "progress": False, **setting.settings}
    start, block = 0, min(100, 3 * episodes + 5)
    while found.reviewed < episodes and start < (most or 100 * episodes):
        numbers = list(range(start, start + block))
        base: Any = jmdp.review(
            setting.simulator,
            setting.policy,
            episodes=numbers,
            method=jmdp.reviews.LookaheadValues(one_number, 1),
            **shared,
        )
        start += block
        for one in base:
            if found.reviewed < episodes:
                _plant(setting, one, rng, errors, shared, found)
    return found


def _plant(setting: Setting, one: Any, rng: Any, errors: dict[Any, Any], shared: dict[str, Any], found: Ranks) -> None:
    """Replace a random action of an episode by a bad one, if there is one that is clear enough, and review it."""
    for t in rng.permutation(len(one))[:3]:
        state = one.trajectory.states[int(t)]
        q = setting.truth(one.replay.player.simulator.observe(state), one)
        bad = int(rng.choice(np.flatnonzero(q < q.max() - 1e-9))) if (q < q.max() - 1e-9).any() else None
        if bad is None:
            continue
        after = one.what_if(int(t), bad)
        actions = [*one.trajectory.actions[: int(t)], *after.actions][: len(one) if len(after) + t > len(one) else None]
        states = [*one.trajectory.states[: int(t)], *after.states][: len(actions)]
        regrets = _regrets(setting, one, states, actions)
        others = max([0.0, *(r for i, r in enumerate(regrets) if i != t)])
        error = _error(setting, one, state, bad, int(q.argmax()), errors) / np.sqrt(setting.samples)
        if regrets[t] < _FACTOR * others or regrets[t] < _CLEAR * error:
            continue
        review: Any = jmdp.review(
            setting.simulator, setting.policy, played=actions, episode=one.episode,
            method=jmdp.reviews.RolloutValues(setting.samples), **shared,
        )  # fmt: skip
        worst = review.worst(1)
        found.reviewed += 1
        found.first += bool(worst) and worst[0].step == int(t)
        found.mistakes += bool(worst) and worst[0].step == int(t) and worst[0].judgement == "mistake"
        found.ratio = min(found.ratio, regrets[t] / others if others else np.inf)
        found.clear = min(found.clear, float(regrets[t] / error) if error else np.inf)
        return


def _regrets(setting: Setting, one: Any, states: list[Any], actions: list[Any]) -> list[float]:
    observe = one.replay.player.simulator.observe
    found = []
    for state, action in zip(states, actions, strict=True):
        q = setting.truth(observe(state), one)
        found.append(float(q.max() - q[int(action)]))
    return found


def _error(setting: Setting, one: Any, state: Any, bad: int, good: int, known: dict[Any, Any]) -> float:
    """Standard deviation of the difference of two actions in a rollout."""
    simulator = one.replay.player.simulator
    key = simulator.digest(state), bad, good
    if key not in known:
        draws = jmdp.compare(
            simulator, setting.policy, state=state, actions=[bad, good], seed=1, samples=_PILOT, progress=False,
            coupling=jmdp.Local() if isinstance(setting.simulator, jmdp.TabularJMDP) else jmdp.Synchronous(),
            **{name: setting.settings[name] for name in ("discount", "horizon") if name in setting.settings},
        ).summary.samples.returns  # fmt: skip
        known[key] = float((draws[:, 0] - draws[:, 1]).std(ddof=1)) if len(draws) > 1 else 0.0
    return known[key]
