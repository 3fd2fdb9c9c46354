// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Who touches a watched file: one source, three ways in.
 *
 *   fentry          fexit on inode_permission: arguments and verdict in one place
 *   kprobe          kprobe + kretprobe on inode_permission, for kernels without trampolines
 *   raw_tracepoint  sys_exit, sched_process_exec and the ctime/dirty tracepoint, for kernels with neither
 *
 * All end in emit(): filter, rate limit, then one record in the ring with everything user space
 * will want to say about the process, because the process may be gone by the time it is read.
 */
#include "identify.h"
#include "mode_fentry.h"
#include "mode_kprobe.h"
#include "mode_raw_tracepoint.h"

/* The kernel asks for a GPL-compatible word before it lends the tracing helpers. */
char LICENSE[] SEC("license") = "GPL";
