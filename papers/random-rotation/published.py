"""Table 1 of the paper, as printed. Its Figs 3-8 are plots without numbers, and nothing was read off them."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """Accuracies in %, the difference on rotated data with its deviation, and the four privacy figures (sigma)."""

    title: str
    knn: float
    knn_rotated: str
    svm: float
    svm_rotated: str
    perceptron: float | None
    perceptron_rotated: str
    lop_min: float
    lop_avg: float
    ica_min: float
    ica_avg: float
    not_converged: bool


TABLE_1 = {
    "breast_cancer_wisconsin": Row(
        "Breast-w", 97.6, "-0.5 ± 0.3", 97.2, "0 ± 0", 34.5, "0 ± 0", 0.41, 0.50, 0.73, 0.95, False
    ),
    "credit_a_australian": Row(
        "Credit-a", 82.7, "+0.2 ± 0.8", 85.5, "0 ± 0", 55.5, "0 ± 0", 0.31, 0.47, 0.51, 0.97, True
    ),
    "credit_g_numeric": Row("Credit-g", 72.1, "+1.2 ± 0.9", 76.3, "0 ± 0", 30.0, "0 ± 0", 0.40, 0.51, 0.52, 0.99, True),
    "pima": Row("Diabetes", 73.3, "+0.4 ± 0.5", 77.3, "0 ± 0", 65.1, "0 ± 0", 0.23, 0.28, 0.81, 0.95, False),
    "ecoli": Row("E.Coli", 85.1, "+0.2 ± 0.8", 78.6, "0 ± 0", None, "-", 0.24, 0.34, 0.75, 0.95, True),
    "heart_statlog": Row("Heart", 78.9, "+2.1 ± 0.5", 84.8, "0 ± 0", 44.2, "+0.2 ± 0.1", 0.42, 0.54, 0.50, 0.97, True),
    "hepatitis": Row("Hepatitis", 80.8, "+1.8 ± 1.5", 79.4, "0 ± 0", 79.0, "+0.4 ± 0.3", 0.37, 0.48, 0.53, 1.00, False),
    "ionosphere": Row("Ionosphere", 86.4, "+0.5 ± 0.6", 89.7, "0 ± 0", 64.2, "0 ± 0", 0.31, 0.41, 0.82, 1.01, True),
    "iris": Row("Iris", 94.6, "+1.2 ± 0.4", 96.7, "0 ± 0", None, "-", 0.43, 0.50, 0.69, 0.79, True),
    "tic_tac_toe": Row("Tic-tac-toe", 83.9, "-0.3 ± 0.4", 70.4, "0 ± 0", 34.7, "0 ± 0", 0.61, 0.68, 0.52, 0.88, False),
    "votes": Row("Votes", 92.5, "+0.4 ± 0.4", 95.6, "0 ± 0", 39.2, "0 ± 0.1", 0.65, 0.82, 0.50, 0.99, False),
    "wine": Row("Wine", 98.3, "-0.6 ± 0.5", 98.9, "0 ± 0", None, "-", 0.26, 0.34, 0.78, 0.97, True),
}
