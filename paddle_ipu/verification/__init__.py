"""What ``paddle_ipu.verify`` is made of: copies of programs, the two sides, tables, the report."""
