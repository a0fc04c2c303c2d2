"""Two thousand random edits of receipts and of a log: refused, or they say the same."""

import random

import pytest
import test_notes
import test_public_log

from sfumato.ledger.notes import LogProof, NoteSigner, inclusion

pytestmark = pytest.mark.system


@pytest.mark.parametrize("seed", range(4))
def test_no_edit_is_believed(seed):
    signer = NoteSigner.new("study.example/log")
    proof = LogProof(3, tuple(inclusion(test_notes.NODES, 3, 5)), test_notes.note_of(signer)).text
    assert test_notes.believed_after_edits(random.Random(seed), proof, 2000, signer) == []
    assert test_public_log.believed_after_edits(random.Random(seed), 2000) == 0
