"""Translators: a Paddle operator in, PopART operators out, through ``popart.Builder`` alone."""
