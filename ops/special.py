"""Special functions: gamma, Bessel and error functions, and their like."""
