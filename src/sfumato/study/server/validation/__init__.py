"""What a site pushed, read where it can do no harm: in a child process with little memory, time and rights."""
