"""One run, from its record to its end; knows no HTTP and no SQL."""
