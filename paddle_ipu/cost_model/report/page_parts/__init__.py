"""The scripts and styles of the reports' page, as data."""
