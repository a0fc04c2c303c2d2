"""Mechanisms: one family a file, found by looking through this folder.

All are loaded when all of them are asked for, or a class: whoever releases by one method loads its file alone.
"""

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.core.errors import UsageError
from sfumato.core.registry import discover, found_in
from sfumato.mechanisms.base import Block as Block
from sfumato.mechanisms.base import Mechanism as Mechanism

if TYPE_CHECKING:  # what editors see; the program looks it up
    from sfumato.mechanisms.column_noise import AdditiveNoise as AdditiveNoise
    from sfumato.mechanisms.column_noise import MultiplicativeNoise as MultiplicativeNoise
    from sfumato.mechanisms.column_noise import NoisyOperator as NoisyOperator
    from sfumato.mechanisms.column_noise import RandomizedResponse as RandomizedResponse
    from sfumato.mechanisms.condensation import Condensation as Condensation
    from sfumato.mechanisms.guided_projection import GuidedProjection as GuidedProjection
    from sfumato.mechanisms.kernel_resampling import KernelResampling as KernelResampling
    from sfumato.mechanisms.principal_laplace import PrincipalLaplace as PrincipalLaplace
    from sfumato.mechanisms.random_rotation import RandomProjection as RandomProjection
    from sfumato.mechanisms.random_rotation import RandomRotation as RandomRotation
    from sfumato.mechanisms.reported_columns import PiecewiseNoise as PiecewiseNoise
    from sfumato.mechanisms.reported_columns import SquareWaveColumns as SquareWaveColumns
    from sfumato.mechanisms.reported_columns import StagedRelease as StagedRelease
    from sfumato.mechanisms.tree_resampling import TreeResampling as TreeResampling

MECHANISMS: dict[str, type[Mechanism]]
"""All methods by name, once they are asked for."""
_defined = found_in(__name__)


def __getattr__(name: str) -> Any:
    if name == "MECHANISMS":
        globals()[name] = _all()
        return _all()
    return _defined(name)


@cache
def _all() -> dict[str, type[Mechanism]]:
    return discover(__name__, Mechanism, declares=("papers", "not_protected"))  # type: ignore[type-abstract]


@cache
def _homes() -> dict[str, str]:
    """Name of a method -> the file that declares it, as its text says: none is loaded."""
    texts = {file.stem: file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("*.py")}
    return {name: home for home, text in texts.items() for name in re.findall(r'^    name = "(.+)"$', text, re.M)}


def find_mechanism(name: str) -> type[Mechanism] | None:
    """The class of a method, None where there is none of this name; loads no file but its own."""
    if not _all.cache_info().currsize and name in _homes():
        items = vars(import_module(f"{__name__}.{_homes()[name]}")).values()
        kinds = (item for item in items if isinstance(item, type) and issubclass(item, Mechanism))
        return next(kind for kind in kinds if getattr(kind, "name", None) == name)
    return _all().get(name)


def make_mechanism(name: str, parameters: dict[str, object] | None = None) -> Mechanism:
    """A mechanism by its name and parameters, as the command line gives them."""
    made = find_mechanism(name)
    if made is None:
        raise UsageError(f"There is no method {name!r}. Choose one of: {', '.join(sorted(_all()))}.")
    known = made._get_param_names()
    for parameter in parameters or {}:
        if parameter == "epsilon_record" and parameter not in known:
            able = sorted(other for other, one in _all().items() if parameter in one._get_param_names())
            raise UsageError(f"{name} cannot aim for an epsilon of the record. These methods can: {', '.join(able)}.")
        if parameter not in known:
            raise UsageError(f"{name} has no parameter {parameter!r}. It has: {', '.join(known)}.")
    return made(**(parameters or {}))
