"""Studies of kind `survey`: answers perturbed by respondents themselves, and the guidance they perturb by."""
