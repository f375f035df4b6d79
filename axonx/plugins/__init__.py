"""Plugins: installed packages that bring component classes, Jobs and Tasks to every Application."""
