"""A Spark session: started here for one machine, or somebody's own, checked for what a secret needs to travel."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sfumato.errors import UsageError
from sfumato.files import write_whole
from sfumato.jobs.spark.sealed import is_one_machine

MISSING = (
    "--engine spark needs PySpark and Java 17 or newer. Install them: pip install 'sfumato[spark]', and Java from your "
    "system, on Debian: apt-get install default-jre-headless."
)
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "FATAL"}
"""What a task fails with is told by us; Java's story of it would be a page on the terminal."""
GUARDED = ("spark.authenticate", "spark.network.crypto.enabled")
SECRET = "spark.authenticate.secret"
MASTERS = ("local", "spark://", "k8s://", "yarn")
"""How Spark's own addresses begin."""


def check_installed() -> None:
    """One line that says what to install, before anything is read."""
    home = os.environ.get("JAVA_HOME")  # Spark looks there first, and then nowhere else
    java = shutil.which(Path(home) / "bin" / "java" if home else "java")
    if find_spec("pyspark") is None or (java is None and not home):
        raise UsageError(MISSING)
    if java is None:
        raise UsageError(
            f"JAVA_HOME is {home}, and there is no bin/java. Correct it, or unset it to use the one on PATH."
        )


@contextmanager
def running_session(master: str | None) -> Iterator[Any]:
    """The session that is running already, or a new one that ends with us."""
    if master is not None and not master.startswith(MASTERS):
        raise UsageError(
            f"--master {master} is no address of Spark. Examples: local[4], spark://host:7077, k8s://host."
        )
    check_installed()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        if master is not None and running.sparkContext.master != master:
            raise UsageError(f"A Spark session of {running.sparkContext.master} is running. Stop it, or use it.")
        yield running
        return
    master = master or "local[*]"
    settings = {**QUIET, "spark.io.encryption.enabled": "true"}
    with _own_settings(master, settings):
        builder = SparkSession.builder.master(master).appName("sfumato")
        for name, value in settings.items():
            builder = builder.config(name, value)
        try:
            started = builder.getOrCreate()
        except Exception as error:  # py4j's and Java's errors have no common parent
            raise UsageError(f"Spark could not start at {master}: {_reason(error)} {_hint(error, master)}") from None
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def _own_settings(master: str, settings: dict[str, str]) -> Iterator[None]:
    """On this machine: on the loopback alone, this Python, and a secret of its own where there are several processes.

    The secret goes into a private file, for what is given as a setting stands in the list of processes.
    """
    if not master.startswith("local"):
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="sfumato-"))
    mine = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    if not is_one_machine(master) and "SPARK_CONF_DIR" not in os.environ:
        lines = [f"{name} true" for name in GUARDED] + [f"{SECRET} {secrets.token_hex(32)}"]
        write_whole(folder / "spark-defaults.conf", "\n".join(lines), private=True)
        mine["SPARK_CONF_DIR"] = str(folder)
    settings["spark.driver.bindAddress"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in mine}
    os.environ.update({name: value for name, value in mine.items() if before[name] is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
        shutil.rmtree(folder, ignore_errors=True)


def checked_secret(master: str, conf: dict[str, str]) -> str | None:
    """Spark's own secret; refused where the run key would cross a network that is not authenticated and encrypted."""
    if is_one_machine(master):
        return None
    off = [name for name in GUARDED if conf.get(name, "false").lower() != "true"]
    if off or not conf.get(SECRET):
        missing = " and ".join([f"{name} true" for name in off] + ([] if conf.get(SECRET) else [f"a {SECRET}"]))
        raise UsageError(
            f"The key of the noise travels to executors, so {master} needs {missing}. Put it into spark-defaults.conf, "
            "readable by you alone. Only on one machine (--master local[*]) it is not needed."
        )
    return conf[SECRET]


def settings_of(running: Any) -> dict[str, str]:
    """What the session was started with."""
    return dict(running.sparkContext.getConf().getAll())


def _reason(error: Exception) -> str:
    """What Java says was wrong, or else the first line."""
    text = str(error).strip() or type(error).__name__
    found = re.search(r"^(?:: |Caused by: )[\w.$]+: (.+)$", text, re.MULTILINE)
    return (found[1] if found else text.splitlines()[0])[:200]


def _hint(error: Exception, master: str) -> str:
    if "JAVA_GATEWAY_EXITED" in str(error) or "UnsupportedClassVersion" in str(error):
        return f"What Java said stands above. Is it version 17 or newer? {MISSING}"
    return "" if master.startswith("local") else "Does a cluster run there, and can it be reached from here?"
