"""What tests use: the operator case table, comparators, and the generators of the docs' tables."""
