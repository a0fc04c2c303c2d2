"""The generator is AES in counter mode, and a stream belongs to one key, one block and one content."""

import ast
import copy
import hashlib
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from randomgen import AESCounter

from sfumato.core.errors import UsageError
from sfumato.noise import Streams
from sfumato.noise.grid import random_words
from sfumato.noise.streams import content_hash, keyed_generator

KEY = bytes(range(32))


def words(generator, count=8):
    return random_words(generator, count).tolist()


@pytest.mark.parametrize("aesni", [True, False])
def test_known_answers_of_aes_128(aesni):
    """NIST SP 800-38A, F.1.1, and FIPS 197, Appendix B: the first block is AES of the counter's first value."""
    answers = [
        ("2b7e151628aed2a6abf7158809cf4f3c", "6bc1bee22e409f96e93d7e117393172a", "3ad77bb40d7a3660a89ecaf32466ef97"),
        ("2b7e151628aed2a6abf7158809cf4f3c", "f69f2445df4f9b17ad2b417be66c3710", "7b0c785e27e8ad3f8223207104725dd4"),
        ("2b7e151628aed2a6abf7158809cf4f3c", "3243f6a8885a308d313198a2e0370734", "3925841d02dc09fbdc118597196a0b32"),
    ]
    probe = AESCounter(key=0)
    before = probe.use_aesni
    try:
        if aesni and not before:
            pytest.skip("this processor has no AES instructions")
        probe.use_aesni = aesni
        for key, counter, expected in answers:
            generator = AESCounter(
                key=int.from_bytes(bytes.fromhex(key), "little"),
                counter=int.from_bytes(bytes.fromhex(counter), "little"),
            )
            assert generator.random_raw(2).tobytes().hex() == expected
    finally:
        probe.use_aesni = before


@pytest.mark.parametrize("start", [0, 1, 2**64 - 3, 2**128 - 3])
def test_words_are_aes_of_an_incrementing_counter(start):
    key = os.urandom(16)
    blocks = b"".join(((start + i) % 2**128).to_bytes(16, "little") for i in range(64))
    expected = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(blocks)
    assert AESCounter(key=int.from_bytes(key, "little"), counter=start).random_raw(128).tobytes() == expected
    if start == 0:
        assert keyed_generator(key).bit_generator.random_raw(128).tobytes() == expected


def test_words_in_bulk_are_aes_from_the_middle_of_the_counter_however_they_are_asked_for():
    """So that no word in bulk is one that the generator draws itself, nor another one in bulk."""
    key = os.urandom(16)
    blocks = b"".join((2**127 + i).to_bytes(16, "little") for i in range(10_000))
    expected = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(blocks)
    assert random_words(keyed_generator(key), 20_000).tobytes() == expected
    piecemeal, found = keyed_generator(key), b""
    for count in (1, 0, 62, 1, 1, 7_000, 3, 12_932):
        piecemeal.random()  # draws of the generator itself stand beside them
        found += random_words(piecemeal, count).tobytes()
    assert found == expected
    uniform = keyed_generator(key).random((2, 50))
    assert uniform.tolist() == ((np.frombuffer(expected, "<u8")[:100] >> 11) * 2.0**-53).reshape(2, 50).tolist()


def test_threads_that_share_a_generator_never_draw_the_same_word():
    generator = keyed_generator(os.urandom(16))
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda _: random_words(generator, 3_000), range(400)))
    assert len(np.unique(np.concatenate(drawn))) == 400 * 3_000


def test_a_negative_count_is_refused_as_numpy_does():
    generator = keyed_generator(os.urandom(16))
    generator.random(3)
    with pytest.raises(ValueError, match="negative dimensions"):
        generator.random(-1)


def test_block_key_is_hkdf_of_the_run_key():
    info = b"sfumato/noise/streams/2" + (5).to_bytes(8, "big")
    info += hashlib.sha256(b"content").digest() + hashlib.sha256(b"parameters").digest()
    key = HKDF(algorithm=SHA256(), length=16, salt=None, info=info).derive(KEY)
    assert words(Streams(KEY).generator(5, b"content", b"parameters")) == words(keyed_generator(key))


def test_same_key_block_and_content_give_the_same_stream_and_nothing_else_does():
    content = content_hash(np.arange(6.0).reshape(2, 3))
    other = content_hash(np.arange(6.0).reshape(2, 3) + 1e-15)
    first = words(Streams(KEY).generator(3, content, b"p"))
    assert first == words(Streams(KEY).generator(3, content, b"p"))
    variants = [
        Streams(KEY).generator(4, content, b"p"),
        Streams(KEY).generator(3, other, b"p"),
        Streams(KEY).generator(3, content, b"q"),
        Streams(KEY).generator(3, content),
        Streams(KEY[::-1]).generator(3, content, b"p"),
        Streams.seeded(0).generator(3, content, b"p"),
        Streams.seeded(1).generator(3, content, b"p"),
        Streams().generator(3, content, b"p"),
        Streams().generator(3, content, b"p"),
    ]
    seen = {tuple(first)} | {tuple(words(v)) for v in variants}
    assert len(seen) == len(variants) + 1


def test_seeded_streams_repeat_and_say_so():
    assert words(Streams.seeded(4).generator(0)) == words(Streams.seeded(4).generator(0))
    assert Streams.seeded(4).reproducible
    assert not Streams().reproducible
    assert words(Streams().generator(0)) != words(Streams().generator(0))


def in_a_forked_child(draw):
    """What `draw` gives in a child of this process."""
    source, sink = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(sink, repr(draw()).encode())
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source) as told:
        found = told.read()
    os.waitpid(child, 0)
    return ast.literal_eval(found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_never_repeats_its_parent_nor_its_brothers():
    """Streams, a key that was given, and generators that were drawn from before; seeded ones repeat, as they must."""
    given, drawn, seeded = Streams(KEY), Streams(), Streams.seeded(5)
    half_used, seeded_generator = drawn.generator(3), seeded.generator(3)
    half_used.random(5), seeded_generator.random(5)

    def draw():
        streams = [words(streams.generator(1)) for streams in (given, drawn, seeded)]
        return [*streams, words(half_used), words(seeded_generator)]

    children = [in_a_forked_child(draw) for _ in range(2)]
    own = draw()
    assert own[0] == words(Streams(KEY).generator(1))
    for secret in (0, 1, 3):
        assert len({tuple(found[secret]) for found in (*children, own)}) == 3
    for repeated in (2, 4):
        assert len({tuple(found[repeated]) for found in (*children, own)}) == 1


def test_words_are_uniform_and_streams_uncorrelated():
    streams = Streams.seeded(11)
    one, two = (streams.generator(i).random(200_000) for i in (0, 1))
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.012
    bits = np.unpackbits(random_words(streams.generator(2), 100_000).view(np.uint8)).mean()
    assert abs(bits - 0.5) < 5 * 0.5 / np.sqrt(6.4e6)


def test_destroyed_streams_give_nothing():
    streams = Streams(KEY)
    buffer = streams._run_key
    streams.destroy()
    assert bytes(buffer) == bytes(32)
    assert streams.destroyed
    for use in (lambda: streams.generator(0), streams.export_key):
        with pytest.raises(UsageError, match="destroyed"):
            use()
    streams.destroy()


def test_the_key_does_not_slip_out():
    generator = Streams(KEY).generator(0)
    for holder in (Streams(KEY), Streams.seeded(3), generator, generator.bit_generator):
        for leak in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="secret"):
                leak(holder)
    for streams in (Streams(KEY), Streams.seeded(3)):
        for text in (repr(streams), str(streams), f"{streams}"):
            assert KEY.hex() not in text
            assert repr(KEY)[2:-1] not in text
            assert len(text) < 60
    with pytest.raises(UsageError) as error:
        Streams(b"short key")
    assert "short" not in str(error.value)


@pytest.mark.parametrize(
    "use",
    [
        lambda: Streams("x" * 32),
        lambda: Streams.seeded(-1),
        lambda: Streams.seeded(1.5),
        lambda: Streams(KEY).generator(-1),
        lambda: Streams(KEY).generator(2**64),
        lambda: Streams(KEY).generator("0"),
        lambda: keyed_generator(b"abc"),
    ],
)
def test_wrong_arguments_are_refused(use):
    with pytest.raises(UsageError, match="parameter of"):
        use()


@pytest.mark.parametrize("hashed", [content_hash, Streams(KEY).content], ids=["plain", "keyed"])
def test_content_hash_sees_values_shapes_types_and_labels(hashed):
    X = np.arange(12.0).reshape(3, 4)
    y = np.array([0, 1, 1])
    different = [
        hashed(X),
        hashed(X, y),
        hashed(X, y[::-1]),
        hashed(X, y.astype(np.int32)),
        hashed(X[::-1], y),
        hashed(X.reshape(4, 3), y),
        hashed(X.astype(np.float32), y),
        hashed(X[:0], y[:0]),
        hashed(X[:0]),
        hashed(X, np.array(["a", "b", "a"])),
    ]
    assert len(set(different)) == len(different)
    assert hashed(np.asfortranarray(X), y) == hashed(X, y)
    assert hashed(np.hstack([X, X])[:, ::1][:, :4], y) == hashed(X, y)
    with pytest.raises(UsageError, match="encode the column first"):
        hashed(X, np.array(["a", "b", "a"], dtype=object))


def test_the_keyed_hash_belongs_to_the_run_and_sees_one_bit_anywhere_in_a_long_block():
    X = np.zeros((1 << 20) + 1)  # longer than what is hashed at a time
    told = Streams(KEY).content(X)
    assert told == Streams(KEY).content(X) != Streams(KEY[::-1]).content(X)
    changed = set()
    for place in (0, (1 << 19) - 1, 1 << 19, 1 << 20):
        X[place] = 5e-324
        changed.add(Streams(KEY).content(X))
        X[place] = 0.0
    assert len(changed | {told}) == 5
