"""Scenario tables of simulators: enumeration of finite draws, sampling, exploration of states."""
