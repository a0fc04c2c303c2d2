"""The guided survey: what a collector computes from received rows, and what respondents make of it [guided-survey].

`SurveyCounts` add up, `Guidance` follows from them, `perturb_bits` is what a respondent's device does with it, and
`survey_epsilon` and, tighter, `record_epsilon` what that proves.
"""

from sfumato.guidance.bits import FLOOR, LINKS, Link, bit_probabilities, perturb_bits, uniforms_from_bytes
from sfumato.guidance.counts import SurveyCounts
from sfumato.guidance.degree_of_error import DegreeOfError, degree_of_error
from sfumato.guidance.disclosure import (
    Disclosure,
    disclosure,
    exact_disclosure,
    published_disclosure_estimate,
    published_error_estimate,
    sureness,
    told_by,
)
from sfumato.guidance.epsilon import SurveyEpsilon, answer_epsilons, survey_epsilon
from sfumato.guidance.guidance import (
    MU,
    ORDERS,
    Guidance,
    GuidanceError,
    Order,
    check_guidance,
    class_difference,
    decode_matrix,
    encode_matrix,
    hash_matrix,
    least_level,
)
from sfumato.guidance.likelihood import answer_posteriors, log_likelihoods
from sfumato.guidance.most_disclosure import MostDisclosure, most_bits, most_disclosure
from sfumato.guidance.simulation import SurveyRules, SurveyRun, mixed_limits, random_startup, simulate
from sfumato.guidance.space import BLANK, AnswerSpace
from sfumato.guidance.whole_tuple import whole_tuple_disclosure, whole_tuple_response
from sfumato.guidance.worst_pair import RecordEpsilon, record_epsilon

__all__ = [
    "BLANK",
    "FLOOR",
    "LINKS",
    "MU",
    "ORDERS",
    "AnswerSpace",
    "DegreeOfError",
    "Disclosure",
    "Guidance",
    "GuidanceError",
    "Link",
    "MostDisclosure",
    "Order",
    "RecordEpsilon",
    "SurveyCounts",
    "SurveyEpsilon",
    "SurveyRules",
    "SurveyRun",
    "answer_epsilons",
    "answer_posteriors",
    "bit_probabilities",
    "check_guidance",
    "class_difference",
    "decode_matrix",
    "degree_of_error",
    "disclosure",
    "encode_matrix",
    "exact_disclosure",
    "hash_matrix",
    "least_level",
    "log_likelihoods",
    "mixed_limits",
    "most_bits",
    "most_disclosure",
    "perturb_bits",
    "published_disclosure_estimate",
    "published_error_estimate",
    "random_startup",
    "record_epsilon",
    "simulate",
    "sureness",
    "survey_epsilon",
    "told_by",
    "uniforms_from_bytes",
    "whole_tuple_disclosure",
    "whole_tuple_response",
]
