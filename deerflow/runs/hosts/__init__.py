"""A host among its like: whose runs are whose, what dead ones left, and runs of others."""
