/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* fentry mode: one fexit program has the arguments and the verdict. */
#ifndef RAMPART_MODE_FENTRY_H
#define RAMPART_MODE_FENTRY_H

#include "admit.h"

#define OWNER_COMES_FIRST                                                                                    \
	(bpf_core_field_exists(struct vfsmount___since_5_12, mnt_userns) ||                                  \
	 bpf_core_field_exists(struct vfsmount___since_6_2, mnt_idmap))

/*
 * In assembly, because the compiler folds the two orders into one load at a computed offset, and the
 * verifier wants every offset into the context to be a constant.
 */
#define ARGUMENT_WORD(ctx, index)                                                                            \
	({                                                                                                   \
		u64 word;                                                                                    \
		asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(word) : "r"(ctx), "i"(8 * (index)));           \
		word;                                                                                        \
	})

SEC("fexit/inode_permission")
int permission_exit(u64 *ctx)
{
	struct target_key key = {};
	struct access access = {};
	struct target *target;
	struct inode *inode;
	u32 mask;
	int result;

	if (OWNER_COMES_FIRST) {
		inode = (void *)ARGUMENT_WORD(ctx, 1);
		mask = ARGUMENT_WORD(ctx, 2);
		result = ARGUMENT_WORD(ctx, 3);
	} else {
		inode = (void *)ARGUMENT_WORD(ctx, 0);
		mask = ARGUMENT_WORD(ctx, 1);
		result = ARGUMENT_WORD(ctx, 2);
	}
	key.inode = inode->i_ino;
	key.device = inode->i_sb->s_dev;
	target = bpf_map_lookup_elem(&targets, &key);
	if (!target)
		return 0;
	if (result == -ECHILD) /* the path walk will ask again, ready to sleep */
		return 0;
	access.inode = key.inode;
	access.device = key.device;
	access.mask = mask & ~MAY_NOT_BLOCK;
	access.verdict = result ? VERDICT_DENIED : VERDICT_ALLOWED;
	if (admit(target, inode, &access))
		emit(&access);
	return 0;
}

#endif
