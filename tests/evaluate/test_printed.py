"""The HTML report on paper: what Chromium prints of it."""

import re
import shutil
import subprocess

import pytest
from browser import BROWSER, needs_browser
from test_page import findings, whole  # noqa: F401  (fixtures)

needs_reader = pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no pdftotext is installed")


def printed(folder, page):
    """The words on each sheet, as they lie on it: what sticks out of the paper is not among them."""
    (folder / "page.html").write_text(page, encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-pdf-header-footer",
    ]
    options += [f"--user-data-dir={folder / 'profile'}", f"--print-to-pdf={folder / 'page.pdf'}"]
    command = [BROWSER, *options, (folder / "page.html").as_uri()]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    done = subprocess.run(
        ["pdftotext", "-layout", folder / "page.pdf", "-"], capture_output=True, text=True, check=True
    )
    return [sheet.split() for sheet in done.stdout.split("\f") if sheet.strip()]


@needs_browser
@needs_reader
def test_on_paper_nothing_is_cut_off_and_closed_parts_are_open(whole, tmp_path):  # noqa: F811
    sheets = printed(tmp_path, whole)
    words = [word for sheet in sheets for word in sheet]
    assert len(sheets) > 2
    rows = re.findall(r"<tr>(.*?)</tr>", whole, re.DOTALL)
    last = [re.findall(r"<td[^>]*>([\d.,%–-]+)", row)[-1:] for row in rows]
    numbers = [cell for cells in last for cell in cells]
    assert len(numbers) > 50
    missing = [number for number in set(numbers) if words.count(number) < numbers.count(number)]
    assert missing == []


@needs_browser
@needs_reader
def test_what_sticks_out_of_the_paper_would_be_noticed(tmp_path):
    table = (
        "<table><tr>"
        + "".join(f"<td><div style='width:90px'>n{n}</div></td>" for n in range(40))
        + "</table>"
    )
    (sheet,) = printed(tmp_path, f"<!doctype html><div style='overflow:hidden;width:700px'>{table}</div>")
    assert "n1" in sheet
    assert "n39" not in sheet
