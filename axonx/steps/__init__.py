"""Steps: the base class and those that come with AxonX."""
