"""The script and the style of a verification's page, as data."""
