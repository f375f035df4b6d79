"""What an Application is made of: components, the registry of their classes, Jobs."""
