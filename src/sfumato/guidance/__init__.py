"""The guided survey: what a collector computes from received rows, and what respondents make of it [guided-survey].

`SurveyCounts` add up, `Guidance` follows from them, `perturb_bits` is what a respondent's device does with it, and
`survey_epsilon` what that proves.
"""

from sfumato.guidance.bits import FLOOR, LINKS, Link, bit_probabilities, perturb_bits, uniforms_from_bytes
from sfumato.guidance.counts import SurveyCounts
from sfumato.guidance.epsilon import SurveyEpsilon, survey_epsilon
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
from sfumato.guidance.space import BLANK, AnswerSpace

__all__ = [
    "BLANK",
    "FLOOR",
    "LINKS",
    "MU",
    "ORDERS",
    "AnswerSpace",
    "Guidance",
    "GuidanceError",
    "Link",
    "Order",
    "SurveyCounts",
    "SurveyEpsilon",
    "bit_probabilities",
    "check_guidance",
    "class_difference",
    "decode_matrix",
    "encode_matrix",
    "hash_matrix",
    "least_level",
    "perturb_bits",
    "survey_epsilon",
    "uniforms_from_bytes",
]
