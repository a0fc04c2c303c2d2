"""The coordinator: one HTTP service for studies. It needs the extra `sfumato[server]`."""

from sfumato.core.errors import SfumatoError

try:
    import fcntl as _fcntl  # noqa: F401 (only to know whether it is there)
    import resource as _resource  # noqa: F401
except ImportError:
    raise SfumatoError(
        "The server needs a POSIX system (Linux, macOS): it locks files and limits child processes. "
        "On Windows, run it in WSL or in a container; every other command works without it."
    ) from None
