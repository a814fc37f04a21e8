"""Progress bars on standard error, with rate and time left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def shown(mode: str) -> bool:
    """Whether ``progress=mode`` shows bars here: ``on``, or ``auto`` on a terminal."""
    return mode == "on" or (mode == "auto" and sys.stderr.isatty())


@contextmanager
def progress(
    mode: str, what: str, unit: str, total: Callable[[], int | None] | None = None
) -> Iterator[Callable[[int], object]]:
    """A bar for ``what``; gives the function to call with the number of ``unit`` done since its last call.

    ``total`` is asked only where a bar is shown, since counting can cost a look through the data.
    """
    if not shown(mode):
        yield lambda n: None
        return
    from tqdm import tqdm

    with tqdm(total=total() if total else None, desc=what, unit=f" {unit}", dynamic_ncols=True) as bar:
        yield bar.update
