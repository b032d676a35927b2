"""What a user asks of a compilation: the strategy, its table of options, its patterns."""
