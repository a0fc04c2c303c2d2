"""The front door: what `import sfumato as sf` gives, for data frames in memory and for files."""
