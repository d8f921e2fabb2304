"""Where simulators come in, a file each. Packages of others load at their own door."""
