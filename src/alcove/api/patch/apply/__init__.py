"""Server-side apply and field ownership, as structured-merge-diff defines them.

`update_managed_fields` is called on all other writes, `apply_configuration` carries out an apply patch.
"""

from alcove.api.patch.apply.applying import apply_configuration
from alcove.api.patch.apply.fieldset import FieldSet
from alcove.api.patch.apply.managed import restore_times
from alcove.api.patch.apply.ownership import update_managed_fields
from alcove.api.patch.apply.versions import Convert, between

__all__ = ["Convert", "FieldSet", "apply_configuration", "between", "restore_times", "update_managed_fields"]
