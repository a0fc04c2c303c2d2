"""From a private table to a release: options, engines, what is written, what a killed run keeps."""
