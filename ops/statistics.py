"""Statistics: variances, medians, histograms and counts."""
