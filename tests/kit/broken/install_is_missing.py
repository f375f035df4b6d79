"""Has no entry point."""
