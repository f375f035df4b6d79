"""Delegation: which subagents there are, whether one may start, and how one execution goes."""
