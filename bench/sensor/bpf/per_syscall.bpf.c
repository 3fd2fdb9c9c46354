// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Does the sensor's work of raw_tp/sys_exit at one tracepoint per system call instead (perf events, which
 * need tracefs), so that other system calls run no program of the sensor.
 */
#include "../../../lib/sensor/bpf/sensor.bpf.c"

/* include/trace/events/syscalls.h, kernel/trace/trace_syscalls.c */
struct syscall_exit {
	u64 common;
	long number;
	long result;
};

#define SYSCALL(name, kind)                                                                                  \
	SEC("tp/syscalls/sys_exit_" #name)                                                                   \
	int after_##name(struct syscall_exit *ctx)                                                            \
	{                                                                                                    \
		if (kind >= SYSCALL_TRUNCATE) {                                                              \
			changed(0, kind, ctx->result == 0);                                                  \
			return changed(1, kind, ctx->result == 0);                                           \
		}                                                                                            \
		if (ctx->result < 0)                                                                         \
			return 0;                                                                            \
		return file_syscall((void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf()), kind,      \
				    ctx->result);                                                            \
	}

SYSCALL(open, SYSCALL_OPEN)
SYSCALL(creat, SYSCALL_OPEN)
SYSCALL(openat, SYSCALL_OPENAT)
SYSCALL(openat2, SYSCALL_OPENAT2)
SYSCALL(read, SYSCALL_READ)
SYSCALL(pread64, SYSCALL_READ)
SYSCALL(readv, SYSCALL_READ)
SYSCALL(write, SYSCALL_WRITE)
SYSCALL(pwrite64, SYSCALL_WRITE)
SYSCALL(writev, SYSCALL_WRITE)
SYSCALL(mmap, SYSCALL_MMAP)
SYSCALL(truncate, SYSCALL_TRUNCATE)
