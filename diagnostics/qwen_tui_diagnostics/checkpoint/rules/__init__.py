"""The rules, one table per pass."""
