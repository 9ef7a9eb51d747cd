"""`python -m tocsin`: the command line."""

import sys

from tocsin.cli import main

sys.exit(main())
