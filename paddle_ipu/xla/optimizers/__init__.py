"""Update rules of weights: Paddle's and PopART's."""
