"""``python -m xmc`` is ``xmc``."""

import sys

from xmc.cli import main

sys.exit(main())
