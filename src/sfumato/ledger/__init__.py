"""What was released of whom: the owner's private ledger."""

from sfumato.ledger.ledger import Ledger as Ledger
