"""Rows of ai.paddle_ipu: linear algebra."""
