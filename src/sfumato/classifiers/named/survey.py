"""Learners of the bits of a guided survey."""

from __future__ import annotations

from typing import Any

from sfumato.classifiers.named.base import NamedClassifier


class BitBayes(NamedClassifier):
    """Naive Bayes on the bits of a guided survey."""

    name = "bernoulli-naive-bayes"
    on_bits = True
    model_types = ("naive_bayes.BernoulliNB",)
    own_types = ("survey_bits.SurveyClassifier",)

    def make(self) -> Any:
        from sfumato.classifiers.survey_bits import SurveyClassifier

        return SurveyClassifier("naive-bayes")


class BitTree(NamedClassifier):
    """An ID3 decision tree on the bits of a guided survey."""

    name = "id3"
    on_bits = True
    model_types = ("tree._classes.DecisionTreeClassifier",)
    own_types = ("survey_bits.SurveyClassifier",)

    def make(self) -> Any:
        from sfumato.classifiers.survey_bits import SurveyClassifier

        return SurveyClassifier("id3")
