"""Jobs that run by themselves at given times."""
