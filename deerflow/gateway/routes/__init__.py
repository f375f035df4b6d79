"""The routes of the Gateway: one file per resource."""
