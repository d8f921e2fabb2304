"""JAX environments as simulators: functional ones, and those of gymnax."""
