"""Adapters: simulators of other libraries, and of functions and classes of users."""
