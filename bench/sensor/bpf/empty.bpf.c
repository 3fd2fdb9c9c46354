// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The sensor's hooks with empty programs: measures what the hooks alone cost. The programs have the names and
 * sections of those in sensor.bpf.c, so that the sensor's own code attaches them.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("fexit/inode_permission")
int permission_exit(void *ctx)
{
	return 0;
}

SEC("kprobe/inode_permission")
int permission_entry(void *ctx)
{
	return 0;
}

SEC("kretprobe/inode_permission")
int permission_return(void *ctx)
{
	return 0;
}

SEC("raw_tp/sys_exit")
int syscall_exit(void *ctx)
{
	return 0;
}

SEC("raw_tp")
int inode_changes(void *ctx)
{
	return 0;
}

SEC("raw_tp/sched_process_exec")
int process_exec(void *ctx)
{
	return 0;
}

SEC("raw_tp/io_uring_complete")
int uring_complete(void *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
