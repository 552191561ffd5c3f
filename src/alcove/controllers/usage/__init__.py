"""What tenants have used, summed up from the reports of nodes and API servers."""

from alcove.controllers.usage.controller import UsageController as UsageController
