"""A server on a real socket of this process, in a thread: what clients and commands are tried against."""

import contextlib
import threading

import uvicorn

from sfumato.study.server.app import create_app


@contextlib.contextmanager
def live(settings, **more):
    """The address of an app that runs, and the app; `more` goes to uvicorn."""
    app = create_app(settings)
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False, **more)
    server = uvicorn.Server(config)
    started = threading.Event()
    startup = server.startup

    async def told(sockets=None):
        await startup(sockets)
        started.set()

    server.startup = told
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert started.wait(60)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"{'https' if config.is_ssl else 'http'}://127.0.0.1:{port}", app
    finally:
        server.should_exit = True
        thread.join(60)
