/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* kprobe mode: the entry has the arguments, the return has the verdict. */
#ifndef RAMPART_MODE_KPROBE_H
#define RAMPART_MODE_KPROBE_H

#include "operations.h"
#include "registers.h"

/*
 * The access that a thread has begun: stored at the entry, removed at the return. On overlay,
 * inode_permission calls itself for the real inode; the stack pointer distinguishes the two.
 */
struct pending {
	u64 sp;
	struct access access;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct pending);
} pending SEC(".maps");

/*
 * At the return, the trampoline reports a stack pointer within 16 bytes of the entry's (how far depends on the
 * kernel version, arch/x86/kernel/rethook.c); that of an inner call is lower by whole frames.
 */
#define TRAMPOLINE_BYTES 16

SEC("kprobe/inode_permission")
int permission_entry(void *ctx)
{
	struct target_key key = {};
	struct pending entered = {}, *outer;
	struct target *target;
	struct inode *inode;
	u64 thread;
	u32 mask;

	entered.sp = REGISTER(ctx, sp, sp);
	if (OWNER_COMES_FIRST) {
		inode = (void *)REGISTER(ctx, si, regs[1]);
		mask = REGISTER(ctx, dx, regs[2]);
	} else {
		inode = (void *)REGISTER(ctx, di, regs[0]);
		mask = REGISTER(ctx, si, regs[1]);
	}
	key.inode = BPF_CORE_READ(inode, i_ino);
	key.device = BPF_CORE_READ(inode, i_sb, s_dev);
	target = find_target(&key);
	if (!target)
		return 0;
	entered.access.inode = key.inode;
	entered.access.device = key.device;
	entered.access.mask = mask & ~MAY_NOT_BLOCK;
	if (!admit(target, inode, &entered.access))
		return 0;

	thread = bpf_get_current_pid_tgid();
	outer = bpf_map_lookup_elem(&pending, &thread);
	if (outer) {
		struct access stale = outer->access;

		/* Nested in another watched access (an overlay file and its layer): report this one without a verdict. */
		if (outer->sp > entered.sp)
			return emit(&entered.access);
		/* Not nested: the return of the pending access was missed (no free kretprobe instance, nmissed). */
		bpf_map_delete_elem(&pending, &thread);
		emit(&stale);
	}
	/* The map is full: report the access now, without a verdict, rather than lose it. */
	if (bpf_map_update_elem(&pending, &thread, &entered, BPF_ANY))
		emit(&entered.access);
	return 0;
}

SEC("kretprobe/inode_permission")
int permission_return(void *ctx)
{
	u64 thread = bpf_get_current_pid_tgid(), sp;
	struct pending *entered;
	struct access access;
	int result;

	entered = bpf_map_lookup_elem(&pending, &thread);
	if (!entered)
		return 0;
	sp = REGISTER(ctx, sp, sp);
	result = REGISTER(ctx, ax, regs[0]);
	if (sp + TRAMPOLINE_BYTES < entered->sp)
		return 0;
	access = entered->access;
	bpf_map_delete_elem(&pending, &thread);
	if (result == -ECHILD)
		return 0;
	access.verdict = result ? VERDICT_DENIED : VERDICT_ALLOWED;
	return emit(&access);
}

SEC("kprobe/vfs_open")
int open_called(void *ctx)
{
	struct path *path = (void *)REGISTER(ctx, di, regs[0]);

	return state.directories ? open_created(BPF_CORE_READ(path, dentry), (void *)REGISTER(ctx, si, regs[1])) : 0;
}

#define FIRST(ctx) REGISTER(ctx, di, regs[0])
#define SECOND(ctx) REGISTER(ctx, si, regs[1])
#define THIRD(ctx) REGISTER(ctx, dx, regs[2])
#define STACK(ctx) REGISTER(ctx, sp, sp)

static __always_inline int operation_return(void *ctx)
{
	int result = REGISTER(ctx, ax, regs[0]);
	u64 sp = STACK(ctx);

	end_operation(0, result, sp, TRAMPOLINE_BYTES);
	return end_operation(1, result, sp, TRAMPOLINE_BYTES);
}

SEC("kprobe/vfs_unlink")
int unlink_called(void *ctx)
{
	return begin_unlink((void *)(OWNER_COMES_FIRST ? THIRD(ctx) : SECOND(ctx)), STACK(ctx));
}

SEC("kretprobe/vfs_unlink")
int unlink_return(void *ctx)
{
	return operation_return(ctx);
}

SEC("kprobe/vfs_rename")
int rename_called(void *ctx)
{
	struct renamedata *rename = (void *)FIRST(ctx);
	struct dentry *from, *to;
	u32 flags;

	if (OWNER_COMES_FIRST) {
		from = BPF_CORE_READ(rename, old_dentry);
		to = BPF_CORE_READ(rename, new_dentry);
		flags = BPF_CORE_READ(rename, flags);
	} else {
		from = (void *)SECOND(ctx);
		to = (void *)REGISTER(ctx, cx, regs[3]);
		flags = REGISTER(ctx, r9, regs[5]);
	}
	return begin_rename(from, to, flags, STACK(ctx));
}

SEC("kretprobe/vfs_rename")
int rename_return(void *ctx)
{
	if (state.directories)
		moved_in(!REGISTER(ctx, ax, regs[0]));
	return operation_return(ctx);
}

SEC("kprobe/notify_change")
int attributes_called(void *ctx)
{
	struct iattr *attributes = (void *)(OWNER_COMES_FIRST ? THIRD(ctx) : SECOND(ctx));

	return begin_attributes((void *)(OWNER_COMES_FIRST ? SECOND(ctx) : FIRST(ctx)), attributes_of(attributes),
				STACK(ctx));
}

SEC("kretprobe/notify_change")
int attributes_return(void *ctx)
{
	return operation_return(ctx);
}

SEC("kprobe/vfs_setxattr")
int set_extended_called(void *ctx)
{
	return begin_attributes((void *)(OWNER_COMES_FIRST ? SECOND(ctx) : FIRST(ctx)), ATTRIBUTES_EXTENDED, STACK(ctx));
}

SEC("kretprobe/vfs_setxattr")
int set_extended_return(void *ctx)
{
	return operation_return(ctx);
}

SEC("kprobe/vfs_removexattr")
int remove_extended_called(void *ctx)
{
	return begin_attributes((void *)(OWNER_COMES_FIRST ? SECOND(ctx) : FIRST(ctx)), ATTRIBUTES_EXTENDED, STACK(ctx));
}

SEC("kretprobe/vfs_removexattr")
int remove_extended_return(void *ctx)
{
	return operation_return(ctx);
}

#endif
