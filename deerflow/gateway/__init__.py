"""The host over HTTP: parse, authorise, call, format. Start with `app.py`."""
