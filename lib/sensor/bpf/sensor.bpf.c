// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Who accesses a watched file: one source, three ways to attach.
 *
 *   fentry          fexit on inode_permission, which has the arguments and the verdict
 *   kprobe          kprobe + kretprobe on inode_permission, for kernels without trampolines
 *   raw_tracepoint  sys_exit, sched_process_exec and the ctime/dirty tracepoint, for kernels with neither
 *
 * All end in emit(): filter, rate limit, then one record in the ring with everything that user space needs to
 * describe the process, which may have exited by the time the record is read.
 */
#include "identify.h"
#include "mode_fentry.h"
#include "mode_kprobe.h"
#include "mode_raw_tracepoint.h"

/* The verifier allows tracing helpers only to programs with a GPL-compatible license. */
char LICENSE[] SEC("license") = "GPL";
