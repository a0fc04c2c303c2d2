"""Learners of the bits of a guided survey."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from sfumato.core.accepted import Either, Nothing, Positive, Whole
from sfumato.learn.classifiers.factory import NamedClassifier
from sfumato.mechanisms.parameters import parameter


class BitBayes(NamedClassifier):
    """Naive Bayes on the bits of a guided survey.

    Parameters
    ----------
    pseudo_rows : float, default=1.0
        Rows that every value of a bit counts beforehand, above 0 to 1e6.
    """

    name = "bernoulli-naive-bayes"
    published = MappingProxyType({"guided-survey": {}})
    on_bits = True
    model_types = ("naive_bayes.BernoulliNB",)
    own_types = ("survey_bits.SurveyClassifier",)

    pseudo_rows: float = parameter(1.0, Positive())

    def make(self) -> Any:
        from sfumato.learn.classifiers.survey_bits import SurveyClassifier

        if self.pseudo_rows == 1.0:
            return SurveyClassifier("naive-bayes")
        from sklearn.naive_bayes import BernoulliNB

        return SurveyClassifier(BernoulliNB(alpha=float(self.pseudo_rows)))


class BitTree(NamedClassifier):
    """An ID3 decision tree (information gain) on the bits of a guided survey.

    Parameters
    ----------
    min_leaf : int or null, default=null
        Rows in a leaf at least, from 1 to 1,000,000; null for a thousandth of the rows, and 5 at least.
    max_depth : int or null, default=null
        Depth at most, from 1 to 1,000.
    """

    name = "id3"
    published = MappingProxyType({"guided-survey": {}})
    on_bits = True
    model_types = ("tree._classes.DecisionTreeClassifier",)
    own_types = ("survey_bits.SurveyClassifier",)

    min_leaf: int | None = parameter(None, Either((Whole(1, 1_000_000), Nothing())))
    max_depth: int | None = parameter(None, Either((Whole(1, 1_000), Nothing())))

    def make(self) -> Any:
        from sfumato.learn.classifiers.survey_bits import SurveyClassifier

        return SurveyClassifier("id3", min_leaf=self.min_leaf, max_depth=self.max_depth)
