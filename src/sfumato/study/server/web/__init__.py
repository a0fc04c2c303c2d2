"""Pages for people: rendered here, readable without a connection to anywhere else."""
