"""Static shape and type inference of the PopART operators, by family."""
