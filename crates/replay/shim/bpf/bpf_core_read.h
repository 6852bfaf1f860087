/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Replacement of libbpf's header: an access is a plain access. */
#ifndef COFFERDAM_REPLAY_CORE_READ_H
#define COFFERDAM_REPLAY_CORE_READ_H

#define bpf_core_read(to, bytes, from) (__builtin_memcpy((to), (from), (bytes)), 0L)
#define bpf_core_field_exists(...) 1

#define bpf_probe_read_kernel(to, bytes, from) (__builtin_memcpy((to), (from), (bytes)), 0L)

static inline __attribute__((unused)) long bpf_probe_read_kernel_str(void *to, __u32 bytes,
								     const void *from)
{
	const char *text = from;
	char *copy = to;
	__u32 i = 0;

	if (!bytes)
		return 0;
	while (i + 1 < bytes && text[i]) {
		copy[i] = text[i];
		i++;
	}
	copy[i] = 0;
	return i + 1;
}

#endif
