"""Serving an Application's Jobs to other processes."""
