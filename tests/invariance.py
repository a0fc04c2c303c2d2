"""Which classifiers give the same answers on rotated rows: measured, for the tests and for docs/invariance.md.

Run `python tests/invariance.py` (with SFUMATO_DATA naming the folder of real tables) to print the table of the docs.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from sfumato.mechanisms import RandomRotation

CLASSIFIERS = {
    "nearest neighbours (k = 5)": KNeighborsClassifier(5),
    "SVM, RBF kernel, gamma 2": SVC(kernel="rbf", gamma=2.0, tol=1e-8),
    "logistic regression": LogisticRegression(C=10.0, tol=1e-10, max_iter=20_000),
    "SVM, polynomial kernel (1 + <x,x'>)^3": SVC(kernel="poly", gamma=1.0, coef0=1.0, degree=3, C=0.1, tol=1e-8),
    "SVM, sigmoid kernel tanh(<x,x'>/2 - 1)": SVC(kernel="sigmoid", gamma=0.5, coef0=-1.0, tol=1e-8),
    "perceptron": Perceptron(random_state=0, max_iter=200, tol=None),
    'SVM, RBF kernel, `gamma="scale"`': SVC(kernel="rbf", gamma="scale", tol=1e-8),
    "decision tree": DecisionTreeClassifier(random_state=0),
    "random forest": RandomForestClassifier(100, random_state=0),
    "naive Bayes": GaussianNB(),
}
ALWAYS = tuple(CLASSIFIERS)[:3]
"""Invariant with any centre."""
ABOUT_ZERO = tuple(CLASSIFIERS)[3:6]
"""Invariant only if the centre is zero: they use scalar products, or a bias that starts at zero."""
NEVER = tuple(CLASSIFIERS)[6:]


def pima(folder: Path):
    frame = pd.read_csv(folder / "pima.csv")
    return frame.iloc[:, :-1].to_numpy(float), frame.iloc[:, -1].to_numpy()


def breast_cancer():
    return load_breast_cancer(return_X_y=True)


def shares_of_equal_predictions(data, centre, rotations=10, names=tuple(CLASSIFIERS)):
    """Per classifier: share of held-out rows that get the same class on rotated as on plain rows, per rotation."""
    X, y = data
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    train, test, labels, _ = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a perceptron on rows that no plane separates never settles
        for name in names:
            plain = clone(CLASSIFIERS[name]).fit(train, labels).predict(test)
            shares = []
            for _ in range(rotations):
                rotation = RandomRotation(centre=centre).fit(train)
                model = clone(CLASSIFIERS[name]).fit(rotation.embed(train), labels)
                shares.append(float(np.mean(model.predict(rotation.embed(test)) == plain)))
            found[name] = np.array(shares)
    return found


def main() -> None:
    tables = {"Pima": pima(Path(os.environ["SFUMATO_DATA"])), "breast cancer": breast_cancer()}
    columns = [(name, data, centre) for name, data in tables.items() for centre in ("zero", "random")]
    measured = [shares_of_equal_predictions(data, centre) for _, data, centre in columns]
    print("| classifier | " + " | ".join(f"{name}, centre {centre}" for name, _, centre in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in CLASSIFIERS:
        cells = [f"{100 * found[name].mean():.1f} ({100 * found[name].min():.1f})" for found in measured]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
