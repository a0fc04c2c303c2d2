"""Requests whose head does not end, over real sockets."""

import asyncio

import pytest
import uvicorn
from uvicorn.server import ServerState

from sfumato.study.server import app as bounded_http
from sfumato.study.server.app import AT_ONCE, MOST_BYTES, BoundedHttp, Joined


async def app(_, receive, send):
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message["body"]), message["more_body"]
    body = str(size).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def spoken(*parts, until_closed=True, app=app, protocol=BoundedHttp):
    """What is answered to the parts, sent one after the other."""

    async def speak():
        config = uvicorn.Config(app, log_config=None)
        config.load()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: protocol(config, ServerState(), {}), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            pass  # it was told off already
        try:
            return await asyncio.wait_for(reader.read() if until_closed else reader.readuntil(b"\r\n\r\n"), 100)
        except ConnectionResetError:
            return b"reset"
        finally:
            writer.close()
            server.close()

    return asyncio.run(speak())


@pytest.mark.parametrize("begun", [b"GET / HTTP/1.1\r\nX: ", b"GET /"], ids=["header", "address"])
def test_an_endless_head_is_given_up(begun):
    answer = spoken(begun, *[b"a" * 65536] * 200)
    assert answer.startswith(b"HTTP/1.1 400") or answer == b"reset"


def test_many_headers_are_an_endless_head_too():
    answer = spoken(b"GET / HTTP/1.1\r\n", *[b"X-Y: " + b"a" * 1000 + b"\r\n"] * 20_000)
    assert answer.startswith(b"HTTP/1.1 400") or answer == b"reset"


def test_a_head_that_never_ends_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(bounded_http, "HEAD_SECONDS", 0.05)
    assert spoken(b"GET / HTTP/1.1\r\nX") == b""
    assert spoken() == b""


def test_a_later_head_that_does_not_end_is_not_waited_for_either(monkeypatch):
    monkeypatch.setattr(bounded_http, "HEAD_SECONDS", 0.05)
    running = []

    class Known(BoundedHttp):
        def data_received(self, data):
            super().data_received(data)
            running.append(self._late is not None)

    whole = b"GET / HTTP/1.1\r\n\r\n"
    assert spoken(whole + b"GET / HTTP/1.1\r\nX", protocol=Known).count(b"HTTP/1.1 200") == 1
    assert running == [True]
    spoken(whole, until_closed=False, protocol=Known)
    assert running == [True, False]


def test_the_time_of_a_body_is_not_counted():
    """The clock runs while a head is read, and not while somebody reads or writes the body."""
    connections, running = [], []

    class Known(BoundedHttp):
        def connection_made(self, transport):
            super().connection_made(transport)
            connections.append(self)
            running.append(self._late is not None)

    async def looks(scope, receive, send):
        running.append(connections[0]._late is not None)
        await app(scope, receive, send)

    head = b"PUT / HTTP/1.1\r\nConnection: close\r\nContent-Length: 4\r\n\r\n"
    assert spoken(head + b"ab", b"cd", app=looks, protocol=Known).startswith(b"HTTP/1.1 200")
    assert running == [True, False]


def test_bodies_are_not_counted():
    """Large ones, and those that come in one piece with their head or with the next one."""
    size = 4 * MOST_BYTES
    head = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size
    last = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"
    answer = spoken(head + b"a" * size + head[:20], head[20:], b"b" * size, last)
    assert answer.count(b"HTTP/1.1 200") == 3
    assert answer.count(b"%d" % size) == 2


class Written(asyncio.Transport):
    """Keeps each call of `write`."""

    def __init__(self):
        super().__init__()
        self.calls, self.closed = [], False

    def write(self, data):
        self.calls.append(bytes(data))

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True


def test_head_and_body_leave_together_and_nothing_large_waits():
    async def answered():
        written = Written()
        joined = Joined(written, asyncio.get_running_loop())
        joined.write(b"head")
        joined.write(b"body")
        assert written.calls == []
        await asyncio.sleep(0)
        assert written.calls == [b"headbody"]
        joined.write(b"head")
        joined.write(b"x" * AT_ONCE)  # before the turn of the loop ends, and after what came before
        assert written.calls[1:] == [b"head", b"x" * AT_ONCE]
        joined.write(b"last")
        joined.close()
        assert (written.calls[-1], written.closed) == (b"last", True)
        joined.write(b"too late")
        await asyncio.sleep(0)
        assert written.calls[-1] == b"last"

    asyncio.run(answered())
