"""Models are trained beside the server: one at a time, in a process of its own."""
