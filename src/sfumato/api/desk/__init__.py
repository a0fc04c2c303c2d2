"""The desk: a page on the owner's own computer, from a dropped table to a release, for people without a terminal.

It calls the functions that Python users call and shows what they return. It computes no figure of its own.
"""
