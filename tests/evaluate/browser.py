"""A page in headless Chromium: how wide it is, what the console says, what it asks the network for."""

import json
import re
import shutil
import subprocess
import threading
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome is installed")
# A frame is as narrow as it is told to be, which a window is not.
FRAME = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><pre id="found"></pre>
<iframe src="page.html" style="width:{width}px;height:4000px;border:0"></iframe><script>
onload = () => {{ const inner = document.querySelector("iframe").contentWindow, d = inner.document;
const over = [...d.querySelectorAll("body *")].filter(
  (n) => !n.closest(".scroll, svg") && n.getBoundingClientRect().right > {width} + 1);
document.getElementById("found").textContent = JSON.stringify({{
  width: d.documentElement.scrollWidth, over: over.map((n) => n.tagName + "." + n.className),
  requests: inner.performance.getEntriesByType("resource").map((e) => e.name),
  text: d.body.innerText, scripted: "hostile" in inner }}) }};</script>"""


class Seen(NamedTuple):
    """Width in px of the page's content, elements that stick out, requests beside the page, console lines."""

    width: int
    over: list
    requests: list
    text: str
    scripted: bool
    console: list


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def look(folder, page, width):
    """What a browser makes of ``page`` (HTML) in a frame of ``width`` px; ``folder``: for its files."""
    (folder / "page.html").write_text(page, encoding="utf-8")
    (folder / "frame.html").write_text(FRAME.format(width=width), encoding="utf-8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        dom, log = _run(folder, f"http://127.0.0.1:{server.server_port}/frame.html")
    finally:
        server.shutdown()
        server.server_close()
    found = json.loads(unescape(re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)[1]))
    return Seen(**found, console=[line for line in log.splitlines() if "CONSOLE" in line])


def _run(folder, address):
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--enable-logging=stderr",
    ]
    options += [
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=1400,1200",
        "--virtual-time-budget=4000",
    ]
    # Nothing but this machine has a name.
    options += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--disable-background-networking"]
    command = [BROWSER, *options, "--dump-dom", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr
