"""Forms with files, piece by piece: whatever the file holds, it comes out as it went in, or the form is refused."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.api.desk.door import FormError, parts

KIND = "multipart/form-data; boundary=xYz"


class Dribble(io.BytesIO):
    """A connection that gives a few bytes at a time."""

    def __init__(self, content: bytes, most: int) -> None:
        super().__init__(content)
        self.most = most

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(self.most, size if size is not None and size >= 0 else self.most))


def body_of(content: bytes) -> bytes:
    head = (
        b'--xYz\r\nContent-Disposition: form-data; name="number"\r\n\r\n7\r\n--xYz\r\nContent-Disposition: form-data; '
    )
    return head + b'name="table"; filename="a b.csv"\r\nContent-Type: text/csv\r\n\r\n' + content + b"\r\n--xYz--\r\n"


def read(body: bytes, most: int = 1 << 16) -> list[tuple[str, str | None, bytes]]:
    return [(part.name, part.filename, b"".join(part.content)) for part in parts(Dribble(body, most), len(body), KIND)]


awkward = st.lists(st.sampled_from([b"\r\n", b"--xYz", b"--xY", b"-", b"\r", b"\n", b"a", b"\x00", b"z" * 40])).map(
    b"".join
)


@given(awkward.filter(lambda content: b"\r\n--xYz" not in b"\r\n" + content), st.integers(1, 70))
def test_a_file_comes_out_as_it_went_in(content, most):
    assert read(body_of(content), most) == [("number", None, b"7"), ("table", "a b.csv", content)]


@given(st.integers(0, len(body_of(b"abc")) - 5))
def test_a_form_that_breaks_off_is_refused(length):
    with pytest.raises(FormError):
        read(body_of(b"abc")[:length])


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary=", "text/plain"])
def test_a_form_without_a_boundary_is_refused(kind):
    with pytest.raises(FormError):
        next(parts(io.BytesIO(b""), 0, kind))


def test_a_field_that_is_no_file_is_short():
    body = body_of(b"x" * 100)
    with pytest.raises(FormError):
        [part.text(0) for part in parts(io.BytesIO(body), len(body), KIND)]
