"""`python -m alcove.agent.cni`: the program that a runtime's plugin directory links to."""

import sys

from alcove.agent.cni.plugin import main

sys.exit(main())
