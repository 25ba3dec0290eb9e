"""`python -m attnbook.book` builds the site."""

import sys

from .build import main

if __name__ == "__main__":  # and not in the processes that it starts
    sys.exit(main())
