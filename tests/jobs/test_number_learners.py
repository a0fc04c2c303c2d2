"""Learners of a released number: errors against those computed by hand, and where none can be told."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import sfumato as sf


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(6)
    age, years = rng.uniform(20, 80, 600), rng.uniform(0, 20, 600)
    income = 10 + 30 * np.sin(age / 10) + 0.5 * years + rng.normal(0, 2, 600)
    return {"age": age.tolist(), "years": years.tolist(), "income": income.tolist()}


def test_a_curve_is_found_by_the_kernel_smoother_and_not_by_a_plane(people):
    release = sf.sanitize(people, mechanism="additive-noise", parameters={"scale": 0.01}, seed=1)
    told = sf.regress(release, "income").about["as_released"]
    assert told["rmse"]["kernel-smoother"] < 0.5 * told["rmse"]["least-squares"]
    assert told["rmse"]["linear"] == pytest.approx(told["rmse"]["least-squares"], rel=0.05)
    Z = release.Z
    width = max(people["income"]) - min(people["income"])
    assert told["rmse_of_mean"] == pytest.approx(Z[:, 2].std() * width, rel=0.02)
    plane = LinearRegression().fit(Z[:, :2], Z[:, 2])
    by_hand = np.sqrt(np.mean((plane.predict(Z[:, :2]) - Z[:, 2]) ** 2)) * width
    assert told["rmse"]["least-squares"] == pytest.approx(by_hand, rel=0.03)


def test_strong_noise_leaves_little_to_predict(people):
    release = sf.sanitize(people, mechanism="additive-noise", parameters={"scale": 0.2}, seed=1)
    told = sf.regress(release, "income").about["as_released"]
    assert told["rmse"]["kernel-smoother"] > 0.85 * told["rmse_of_mean"]
