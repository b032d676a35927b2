"""The style and the scripts that every page has, as data."""
