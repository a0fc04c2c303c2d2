"""The guided survey: what a collector computes from received rows, and what respondents make of it [guided-survey].

`SurveyCounts` add up, `Guidance` follows from them, `perturb_bits` is what a respondent's device does with it, and
`survey_epsilon` and, tighter, `record_epsilon` what that proves.
"""

from sfumato.channels.guidance.bits import (
    FLOOR,
    LINKS,
    Link,
    answer_posteriors,
    bit_probabilities,
    log_likelihoods,
    perturb_bits,
    uniforms_from_bytes,
)
from sfumato.channels.guidance.disclosure import (
    Disclosure,
    disclosure,
    exact_disclosure,
    published_disclosure_estimate,
    published_error_estimate,
    sureness,
    told_by,
)
from sfumato.channels.guidance.epsilon import (
    RecordEpsilon,
    SurveyEpsilon,
    answer_epsilons,
    record_epsilon,
    survey_epsilon,
)
from sfumato.channels.guidance.guidance import (
    MU,
    ORDERS,
    Guidance,
    GuidanceError,
    Order,
    SurveyCounts,
    SurveyRules,
    check_guidance,
    class_difference,
    decode_matrix,
    encode_matrix,
    hash_matrix,
    least_level,
)
from sfumato.channels.guidance.most_disclosure import (
    DegreeOfError,
    MostDisclosure,
    degree_of_error,
    most_bits,
    most_disclosure,
)
from sfumato.channels.guidance.simulation import (
    SurveyRun,
    mixed_limits,
    random_startup,
    simulate,
    whole_tuple_disclosure,
    whole_tuple_response,
)
from sfumato.channels.guidance.space import BLANK, AnswerSpace

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
