"""The rows of the table of PopART operators, by domain and family."""
