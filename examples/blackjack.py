"""Blackjack, 15 against an 8: a card that busts the player on a hit busts the dealer on a stick; returns move apart."""

import gymnasium

import jmdp

env = gymnasium.make("Blackjack-v1")
env.reset(seed=19)
print(jmdp.compare(env, policy=lambda hand: int(hand[0] < 17), discount=1.0, horizon=20, seed=0))
