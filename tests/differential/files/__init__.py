"""Damaged files: each is read, or refused by an error of ours, soon and in bounded memory."""
