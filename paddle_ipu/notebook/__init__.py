"""What a notebook shows: tables and charts."""
