"""Reconstruction: the distribution of the original values from a release and its card, never the values themselves."""

from sfumato.reconstruction.density import Density
from sfumato.reconstruction.evidence import Bins, Cells
from sfumato.reconstruction.expectation_maximization import ExpectationMaximization
from sfumato.reconstruction.joint_density import JointDensity, Product, reconstruct_along, reconstruct_product
from sfumato.reconstruction.parzen_program import (
    ConvergenceError,
    LeaveOneOut,
    ParzenProgram,
    leave_one_out_width,
    simplex_program,
)
from sfumato.reconstruction.reconstruct import METHODS, Options, make_method, reconstruct
from sfumato.reconstruction.shares import Shares, invert_response

__all__ = [
    "METHODS",
    "Bins",
    "Cells",
    "ConvergenceError",
    "Density",
    "ExpectationMaximization",
    "JointDensity",
    "LeaveOneOut",
    "Options",
    "ParzenProgram",
    "Product",
    "Shares",
    "invert_response",
    "leave_one_out_width",
    "make_method",
    "reconstruct",
    "reconstruct_along",
    "reconstruct_product",
    "simplex_program",
]
