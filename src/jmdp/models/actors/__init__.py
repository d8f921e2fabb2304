"""Common interface of all kinds of policies, for rollouts."""
