"""Classifiers that can be chosen by name. Each declares itself; scikit-learn is imported only when one is made."""
