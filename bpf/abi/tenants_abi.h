/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Types that the isolation benchmark's programs and their reader share: plain integers. */
#ifndef COFFERDAM_TENANTS_ABI_H
#define COFFERDAM_TENANTS_ABI_H

/* One tenant; its row is the index in the map. Counts since the row was cleared. */
struct cf_tenant {
	__s64 rss_pages;     /* anonymous, file and shared pages that its processes map, now */
	__u64 device_ops;    /* requests that its devices completed */
	__u64 device_bytes;  /* bytes of those */
	__u64 untracked_mms; /* address spaces for which the table was full */
};
_Static_assert(sizeof(struct cf_tenant) == 32, "cf_tenant is part of the ABI");

/* One address space. */
struct cf_tenant_mm {
	__s64 pages; /* as counted into its row */
	__u32 row;
	__u32 reserved;
};
_Static_assert(sizeof(struct cf_tenant_mm) == 16, "cf_tenant_mm is part of the ABI");

#endif
