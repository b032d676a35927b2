"""How a session rounds: to half, at random, partial sums."""
