"""Programs that show paddle_ipu at work."""
