"""Raises what only the host may mean, while it is imported."""

import asyncio

raise asyncio.CancelledError
