"""Telling addresses that runs have ended."""
