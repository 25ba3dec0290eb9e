"""`python -m attnbook.book` builds the site."""

import sys

from .build import main

sys.exit(main())
