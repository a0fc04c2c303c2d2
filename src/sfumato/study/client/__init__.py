"""A site's and an owner's side of a study: speaks HTTPS with a coordinator, and needs nothing but outgoing HTTPS. One
way: what a server answers decides whether something is sent, never what is computed here."""

from sfumato.study.client.coordinator import Coordinator, Parcel
from sfumato.study.client.pushing import Plan, Pushed, carry_out, plan_push

__all__ = ["Coordinator", "Parcel", "Plan", "Pushed", "carry_out", "plan_push"]
