"""Tasks in workers of a Dask cluster: needs the extra `distributed`; imported only where it is configured."""
