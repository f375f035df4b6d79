"""What clients send: bodies of requests, checked."""
