"""The guided survey: what a collector computes from received rows, and respondents make of it [guided-survey]."""
