"""How an Application is put together, started and closed."""
