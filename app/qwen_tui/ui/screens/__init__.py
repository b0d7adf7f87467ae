"""The console's screens: they receive facts and turn keys into requests."""
