"""Passes over the graph of an inference program whose weights no run changes, one a file."""
