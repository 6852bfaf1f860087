/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Empty programs where packets enter and leave a device, for `bench latency`: their cost is the
 * least that a capture by devices costs.
 */
#include "../include/packet.h"
#include <bpf/bpf_helpers.h>

SEC("tcx/ingress")
int reference_hook_ingress(void *packet)
{
	return TC_NEXT;
}

SEC("tcx/egress")
int reference_hook_egress(void *packet)
{
	return TC_NEXT;
}

char LICENSE[] __weak SEC("license") = "GPL";
