"""Blackjack, 15 against an 8: the card that busts who hits would have busted the dealer, so returns move apart."""

import gymnasium

import jmdp

env = gymnasium.make("Blackjack-v1")
env.reset(seed=19)
print(jmdp.compare(env, policy=lambda hand: int(hand[0] < 17), discount=1.0, horizon=20, seed=0))
