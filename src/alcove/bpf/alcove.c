// SPDX-License-Identifier: GPL-2.0-only
/* The data plane's one object: an attach point per file, what they share in lib/. */
#include "from_pod.c"
#include "from_underlay.c"
#include "from_vxlan.c"
#include "from_exit.c"

char alcove_license[] SEC("license") = "GPL";
