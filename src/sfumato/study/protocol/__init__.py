"""What the two ends of a study agree on: study files, messages, and when a release is acceptable."""
