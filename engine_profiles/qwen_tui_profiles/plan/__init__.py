"""The memory plan: what a launch will get, predicted before it starts. Pure arithmetic."""
