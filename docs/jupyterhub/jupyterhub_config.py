"""JupyterHub for a course: who may log in gets a JupyterLab with this book and nbgrader's exchange.

docs/instructors.md says what has to be installed before, and how a set goes out and comes back.
"""

import sys
from pathlib import Path

BOOK = Path(__file__).resolve().parent.parent.parent  # the folder that `book.py release` wrote
sys.path.append(str(BOOK))
from book import ONE_THREAD  # noqa: E402  as for every command of the book

c = get_config()  # noqa: F821  JupyterHub defines it

c.JupyterHub.bind_url = "http://127.0.0.1:8000"  # a web server with TLS stands before it
c.LocalAuthenticator.allowed_groups = {"students", "teachers"}  # groups of the operating system
c.Spawner.cmd = [str(BOOK / ".venv" / "bin" / "jupyterhub-singleuser")]
c.Spawner.default_url = "/lab"
c.Spawner.environment = ONE_THREAD
