"""AxonX: an asynchronous application framework of components, Jobs and Tasks."""
