"""Random programs, trainings and damaged files, beside what they should give."""
