"""The guided survey: what a collector computes from received rows, and what respondents make of it [guided-survey].

`SurveyCounts` add up, `Guidance` follows from them, `perturb_bits` is what a respondent's device does with it, and
`survey_epsilon` and, tighter, `record_epsilon` what that proves.
"""
