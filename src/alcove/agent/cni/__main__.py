"""`python -m alcove.agent.cni`: what a runtime's plugin folder has a link to."""

import sys

from alcove.agent.cni.plugin import main

sys.exit(main())
