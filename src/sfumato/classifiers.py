"""The classifiers moved to `sfumato.learn.classifiers`; for one version they can be imported from here too."""

import sys
import warnings
from importlib import import_module

warnings.warn(
    "sfumato.classifiers is now sfumato.learn.classifiers; the old name goes with the next version.",
    DeprecationWarning,
    stacklevel=2,
)
sys.modules[__name__] = import_module("sfumato.learn.classifiers")
