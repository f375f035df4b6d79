"""Cannot be imported."""

raise RuntimeError("set ACME_KEY first")
