"""One step of a session: traced by JAX, compiled by XLA, kept for other processes, run."""
