"""Lowers many programs' steps with two checkouts of the package, and compares the StableHLO."""
