/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* fentry mode: a fexit program has the arguments and the verdict; fentry programs read what an operation is about to change. */
#ifndef RAMPART_MODE_FENTRY_H
#define RAMPART_MODE_FENTRY_H

#include "operations.h"

#define OWNER_COMES_FIRST                                                                                    \
	(bpf_core_field_exists(struct vfsmount___since_5_12, mnt_userns) ||                                  \
	 bpf_core_field_exists(struct vfsmount___since_6_2, mnt_idmap))

/*
 * In assembly, because the compiler would fold the two argument orders into one load at a computed offset, and the
 * verifier accepts only constant offsets into the context.
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
	target = find_target(&key);
	if (!target)
		return 0;
	if (result == -ECHILD) /* RCU walk gave up; the kernel repeats the walk, and this check, in ref walk */
		return 0;
	access.inode = key.inode;
	access.device = key.device;
	access.mask = mask & ~MAY_NOT_BLOCK;
	access.verdict = result ? VERDICT_DENIED : VERDICT_ALLOWED;
	if (admit(target, inode, &access))
		emit(&access);
	return 0;
}

SEC("fentry/vfs_open")
int open_entry(u64 *ctx)
{
	struct path *path = (void *)ARGUMENT_WORD(ctx, 0);

	return state.directories ? open_created(path->dentry, (void *)ARGUMENT_WORD(ctx, 1)) : 0;
}

/* The argument at `index` since 5.12, at `before` on older kernels. */
#define ARGUMENT_SINCE_5_12(ctx, index, before)                                                              \
	(OWNER_COMES_FIRST ? ARGUMENT_WORD(ctx, index) : ARGUMENT_WORD(ctx, before))

SEC("fentry/vfs_unlink")
int unlink_entry(u64 *ctx)
{
	u64 dentry = ARGUMENT_SINCE_5_12(ctx, 2, 1);

	return begin_unlink((void *)dentry, dentry);
}

SEC("fexit/vfs_unlink")
int unlink_exit(u64 *ctx)
{
	return end_operation(0, ARGUMENT_SINCE_5_12(ctx, 4, 3), ARGUMENT_SINCE_5_12(ctx, 2, 1), 0);
}

/* vfs_rename(struct renamedata *) since 5.12; (old_dir, old_dentry, new_dir, new_dentry, ...) on older kernels. */
SEC("fentry/vfs_rename")
int rename_entry(u64 *ctx)
{
	struct renamedata *rename = (void *)ARGUMENT_WORD(ctx, 0);
	struct dentry *from, *to;
	u32 flags;

	if (OWNER_COMES_FIRST) {
		from = BPF_CORE_READ(rename, old_dentry);
		to = BPF_CORE_READ(rename, new_dentry);
		flags = BPF_CORE_READ(rename, flags);
	} else {
		from = (void *)ARGUMENT_WORD(ctx, 1);
		to = (void *)ARGUMENT_WORD(ctx, 3);
		flags = ARGUMENT_WORD(ctx, 5);
	}
	return begin_rename(from, to, flags, (u64)from);
}

SEC("fexit/vfs_rename")
int rename_exit(u64 *ctx)
{
	struct renamedata *rename = (void *)ARGUMENT_WORD(ctx, 0);
	u64 from;
	int result;

	if (OWNER_COMES_FIRST) {
		from = (u64)BPF_CORE_READ(rename, old_dentry);
		result = ARGUMENT_WORD(ctx, 1);
	} else {
		from = ARGUMENT_WORD(ctx, 1);
		result = ARGUMENT_WORD(ctx, 6);
	}
	if (state.directories)
		moved_in(!result);
	end_operation(0, result, from, 0);
	return end_operation(1, result, from, 0);
}

SEC("fentry/notify_change")
int attributes_entry(u64 *ctx)
{
	u64 dentry = ARGUMENT_SINCE_5_12(ctx, 1, 0);

	return begin_attributes((void *)dentry, attributes_of((void *)ARGUMENT_SINCE_5_12(ctx, 2, 1)), dentry);
}

SEC("fexit/notify_change")
int attributes_exit(u64 *ctx)
{
	return end_operation(0, ARGUMENT_SINCE_5_12(ctx, 4, 3), ARGUMENT_SINCE_5_12(ctx, 1, 0), 0);
}

SEC("fentry/vfs_setxattr")
int set_extended_entry(u64 *ctx)
{
	u64 dentry = ARGUMENT_SINCE_5_12(ctx, 1, 0);

	return begin_attributes((void *)dentry, ATTRIBUTES_EXTENDED, dentry);
}

SEC("fexit/vfs_setxattr")
int set_extended_exit(u64 *ctx)
{
	return end_operation(0, ARGUMENT_SINCE_5_12(ctx, 6, 5), ARGUMENT_SINCE_5_12(ctx, 1, 0), 0);
}

SEC("fentry/vfs_removexattr")
int remove_extended_entry(u64 *ctx)
{
	u64 dentry = ARGUMENT_SINCE_5_12(ctx, 1, 0);

	return begin_attributes((void *)dentry, ATTRIBUTES_EXTENDED, dentry);
}

SEC("fexit/vfs_removexattr")
int remove_extended_exit(u64 *ctx)
{
	return end_operation(0, ARGUMENT_SINCE_5_12(ctx, 3, 2), ARGUMENT_SINCE_5_12(ctx, 1, 0), 0);
}

#endif
