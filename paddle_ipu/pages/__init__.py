"""HTML pages in one design: no other file, no network."""
