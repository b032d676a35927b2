"""Reads what PopART's Python module takes from its sources, for tests/popart_stand_in/bindings."""
