"""Probes and judgements: preflight checks, engine-log reading, checkpoint verification."""
