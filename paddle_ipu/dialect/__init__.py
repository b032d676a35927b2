"""What a Paddle program looks like between reading and translation: nodes, names, marks."""
