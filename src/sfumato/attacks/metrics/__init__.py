"""What an attack got and what a release is still good for: plain functions, each says which way is better."""

from sfumato.core.registry import found_in

__getattr__ = found_in(__name__)
