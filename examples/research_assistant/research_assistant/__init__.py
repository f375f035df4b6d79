"""An agent whose tools are AxonX Jobs over a small table."""
