"""Calling Jobs of another AxonX service."""
