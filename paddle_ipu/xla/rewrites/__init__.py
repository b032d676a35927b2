"""What the weights of an inference program allow: rewritings of its graph, one a file."""
