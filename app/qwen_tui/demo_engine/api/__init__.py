"""The HTTP surface of the simulated engine."""
