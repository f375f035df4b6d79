"""Threads as clients look for them and follow them."""
