"""Linear algebra: decompositions, solvers, determinants, norms and products of matrices."""
