// SPDX-License-Identifier: GPL-2.0-only
/* The data plane's single object: one file per attach point, shared code in lib/. */
#include "from_pod.c"
#include "from_underlay.c"
#include "from_vxlan.c"
#include "from_exit.c"

char alcove_license[] SEC("license") = "GPL";
