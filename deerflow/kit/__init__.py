"""What the `deerflow extensions` commands do: scaffold, check, install and switch extensions."""
