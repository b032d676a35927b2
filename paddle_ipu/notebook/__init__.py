"""What a notebook shows: tables, charts, lines that change."""
