"""A compiled program at work: feeds in, steps, fetches out."""
