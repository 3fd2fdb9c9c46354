/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Identifies the file behind a descriptor, from the same fields that the hooks read. */
#ifndef RAMPART_IDENTIFY_H
#define RAMPART_IDENTIFY_H

#include "read.h"

/*
 * Never attached: user space runs it (BPF_PROG_TEST_RUN, raw tracepoints since 5.10) with a descriptor
 * as argument and reads `identity`. It has the very values that the hooks will see, so file systems whose st_dev
 * or st_ino differ from the inode's own (btrfs, overlay over several) need no special case.
 */
SEC("raw_tp")
int identify(struct bpf_raw_tracepoint_args *ctx)
{
	struct file *file = file_of(ctx->args[0]);
	struct inode *inode;

	state.identity.pid = bpf_get_current_pid_tgid() >> 32;
	if (!file) {
		state.identity.error = -9; /* EBADF */
		return 0;
	}
	inode = inode_of(file);
	state.identity.inode = BPF_CORE_READ(inode, i_ino);
	state.identity.device = BPF_CORE_READ(inode, i_sb, s_dev);
	state.identity.generation = generation_of(inode);
	state.identity.error = 0;
	return 0;
}

#endif
