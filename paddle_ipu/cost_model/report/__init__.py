"""A prediction for people and programs: text and JSON."""
