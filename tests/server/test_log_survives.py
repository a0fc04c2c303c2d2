"""A process that is killed while it writes to the log loses nothing that it acknowledged."""

from __future__ import annotations

import subprocess
import sys

import consortium

from sfumato.ledger.notes import leaf_hash, nodes_of, opened, root_of
from sfumato.ledger.public_log import unpacked
from sfumato.study.server.store import Store

WRITER = """
import sys
from pathlib import Path
from sfumato.study.server.settings import Settings
from sfumato.study.server.store import Store
log = Store.open(Settings(Path(sys.argv[1]))).log
while True:
    number = log.size()
    print(log.add(b'{"number":%d}' % number), log.checkpoint(number + 1).split()[2], flush=True)
"""


def test_kill_while_logging(tmp_path):
    """Numbers and roots that were acknowledged are those of the log that is there."""
    data, acknowledged = tmp_path / "data", []
    store = Store.open(consortium.settings(data))
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(data)], stdout=subprocess.PIPE, text=True)
    acknowledged += [writer.stdout.readline().split() for _ in range(20)]
    writer.kill()
    acknowledged += [line.split() for line in writer.stdout if line.endswith("\n") and len(line.split()) == 2]
    writer.wait()
    writer.stdout.close()
    size = store.log.size()
    entries = unpacked(store.log.bundle(0, min(size, 256)), min(size, 256))
    nodes = nodes_of([leaf_hash(one) for one in entries])
    for number, root in acknowledged:
        assert entries[int(number)] == b'{"number":%s}' % number.encode()
        assert opened(store.log.checkpoint(int(number) + 1), store.log.signer.key).root == root_of(
            nodes, int(number) + 1
        )
        assert store.log.checkpoint(int(number) + 1).split()[2] == root
    assert [int(number) for number, _ in acknowledged] == list(range(len(acknowledged)))
    assert len(acknowledged) <= size <= len(acknowledged) + 1
    store.close()
