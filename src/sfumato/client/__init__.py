"""A site's and an owner's side of a study: speaks HTTPS with a coordinator, and needs nothing but outgoing HTTPS.

One way: what a server answers decides whether something is sent, never what is computed here.
"""

from typing import TYPE_CHECKING, Any

from sfumato.client.coordinator import Coordinator
from sfumato.client.parcel import Parcel

if TYPE_CHECKING:
    from sfumato.client.pushing import Plan, Pushed, carry_out, plan_push

__all__ = ["Coordinator", "Parcel", "Plan", "Pushed", "carry_out", "plan_push"]


def __getattr__(name: str) -> Any:
    """Planning a push knows the rules of studies, which bring scikit-learn with them; other calls start without it."""
    if name not in __all__:
        raise AttributeError(name)
    from sfumato.client import pushing

    return getattr(pushing, name)
