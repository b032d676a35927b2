"""Rows of ai.paddle_ipu: special functions, statistics, order."""
