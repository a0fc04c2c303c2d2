"""What everything rests on: errors, names, wording, files that are written whole or not at all."""
