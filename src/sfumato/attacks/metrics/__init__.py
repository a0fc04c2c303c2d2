"""What an attack got and what a release is still good for: plain functions, each says which way is better."""
