"""What depends on the order of elements: running extremes and products, ranks, searches."""
