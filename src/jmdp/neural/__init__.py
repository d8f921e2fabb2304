"""Networks for joint moments: what they look like, what they minimise, how they are trained. Needs ``jmdp[nn]``."""
