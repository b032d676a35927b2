"""The style and the scripts of the reports' page, as data."""
