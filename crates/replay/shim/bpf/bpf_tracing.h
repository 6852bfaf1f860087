/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Replacement of libbpf's header: a program is a function of its tracepoint's arguments. */
#ifndef COFFERDAM_REPLAY_TRACING_H
#define COFFERDAM_REPLAY_TRACING_H

#define BPF_PROG(name, args...) replay_##name(args)

#endif
