"""Rows of special functions, statistics, order and linear algebra."""
