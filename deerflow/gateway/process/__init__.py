"""The Gateway as a process of its own: serving, workers, its log and its heap."""
