"""Three rules at the same cards: what is the strategy of the books worth, against two that are easy to remember?"""

import gymnasium

import jmdp


def by_the_book(hand):
    """Hit or stick, by the own sum, the dealer's card and a usable ace."""
    player, dealer, ace = hand
    if ace:
        return int(player < (19 if dealer >= 9 else 18))
    if player == 12:
        return int(dealer not in (4, 5, 6))
    return int(player < (13 if dealer in (2, 3, 4, 5, 6) else 17))


rules = {
    "by the book": by_the_book,
    "like the dealer": lambda hand: int(hand[0] < 17),
    "never bust": lambda hand: int(hand[0] < 12),
}
env = gymnasium.make("Blackjack-v1", sab=True)
print(jmdp.compare_policies(env, rules, discount=1.0, horizon=20, seed=0))
