"""The operator case table by family: one module each, with its rows in `TABLE`."""
