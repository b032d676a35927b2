"""What is put into Paddle: the table of patches, what puts it into effect, what it puts there."""
