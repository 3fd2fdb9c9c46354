/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* raw tracepoint mode: successful system calls, and exec. */
#ifndef RAMPART_MODE_RAW_TRACEPOINT_H
#define RAMPART_MODE_RAW_TRACEPOINT_H

#include "operations.h"
#include "registers.h"

/*
 * A file that was open before the watch began is reported at each process's first read and first write.
 * A file that is opened later is reported by its open, and marked here (pid 0).
 */
struct descriptor_key {
	u64 file;
	u32 target_id;
	u32 pid;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct descriptor_key);
	__type(value, u32);
} descriptors SEC(".maps");

/* The inode's target, and its key; the hot path of this mode. */
static __always_inline struct target *target_of(struct inode *inode, struct target_key *key)
{
	if (bpf_rdonly_cast) {
		struct inode *typed = TYPED(struct inode, inode);

		key->inode = typed->i_ino;
		key->device = typed->i_sb->s_dev;
	} else {
		key->inode = BPF_CORE_READ(inode, i_ino);
		key->device = BPF_CORE_READ(inode, i_sb, s_dev);
	}
	return find_target(key);
}

static __always_inline int touched(struct inode *inode, struct target *target, struct target_key *key, u32 mask)
{
	struct access access = {};

	access.inode = key->inode;
	access.device = key->device;
	access.mask = mask;
	access.verdict = VERDICT_ALLOWED; /* these hooks see no failed calls */
	if (admit(target, inode, &access))
		emit(&access);
	return 0;
}

/* Mark of a file that arrived in a watched directory during or after its open: see opened(). No process has pid -1. */
static __always_inline struct descriptor_key mark_of_arrival(struct file *file, struct target_key *key)
{
	struct descriptor_key mark = {};

	mark.file = (u64)file;
	mark.target_id = key->inode;
	mark.pid = -1;
	return mark;
}

static __noinline int opened(u32 fd, u32 flags)
{
	struct descriptor_key mark = {};
	struct target_key key = {};
	struct target *target;
	struct inode *inode;
	struct file *file = file_of(fd);
	u32 one = 1;

	if (!file)
		return 0;
	inode = inode_of(file);
	target = target_of(inode, &key);
	if (state.directories && BPF_CORE_READ(file, f_mode) & FMODE_CREATED) {
		struct target *fresh = arrived(BPF_CORE_READ(file, f_path.dentry, d_parent, d_inode), inode, &key);

		if (fresh)
			target = fresh;
	}
	if (!target)
		return 0;
	if (BPF_CORE_READ(file, f_mode) & FMODE_PATH)
		return 0; /* O_PATH: gives no access to the content */
	if (target->lent) { /* user space will give it its own target; its reads and writes are not reported then either */
		mark = mark_of_arrival(file, &key);
		bpf_map_update_elem(&descriptors, &mark, &one, BPF_ANY);
		mark.pid = 0;
	}
	mark.file = (u64)file;
	mark.target_id = target->id;
	bpf_map_update_elem(&descriptors, &mark, &one, BPF_ANY);
	/* The kernel drops O_TRUNC from f_flags; the caller's flags may lack what the kernel adds. */
	return touched(inode, target, &key, open_mask(BPF_CORE_READ(file, f_flags) | (flags & O_TRUNC)));
}

static __always_inline int used_file(struct file *file, u32 mask)
{
	struct descriptor_key mark = {};
	struct target_key key = {};
	struct target *target;
	struct inode *inode;
	u32 *before;

	if (!file)
		return 0;
	inode = inode_of(file);
	target = target_of(inode, &key);
	if (!target)
		return 0;
	mark.file = (u64)file;
	mark.target_id = target->id;
	if (bpf_map_lookup_elem(&descriptors, &mark))
		return 0; /* its open was reported */
	mark = mark_of_arrival(file, &key);
	if (bpf_map_lookup_elem(&descriptors, &mark))
		return 0;
	mark.target_id = target->id;
	mark.pid = bpf_get_current_pid_tgid() >> 32;
	before = bpf_map_lookup_elem(&descriptors, &mark);
	if (before) {
		if ((*before & mask) == mask)
			return 0;
		*before |= mask;
	} else {
		bpf_map_update_elem(&descriptors, &mark, &mask, BPF_ANY);
	}
	return touched(inode, target, &key, mask);
}

static __noinline int used(u32 fd, u32 mask)
{
	return used_file(file_of(fd), mask);
}

/* A system call that accesses a file has succeeded. `result` is its return value. */
static __noinline int file_syscall(void *regs, u32 kind, u32 result)
{
	u32 compat = is_compat();
	u64 flags = 0;
	u32 mask = 0;

	switch (kind) {
	case SYSCALL_OPEN:
		return opened(result, ARGUMENT_1(regs, compat));
	case SYSCALL_OPENAT:
		return opened(result, ARGUMENT_2(regs, compat));
	case SYSCALL_OPENAT2: /* struct open_how begins with its flags */
		bpf_probe_read_user(&flags, sizeof(flags), (void *)ARGUMENT_2(regs, compat));
		return opened(result, flags);
	case SYSCALL_READ:
		return used(ARGUMENT_0(regs, compat), MAY_READ);
	case SYSCALL_WRITE:
		return used(ARGUMENT_0(regs, compat), MAY_WRITE);
	case SYSCALL_SENDFILE:
		used(ARGUMENT_1(regs, compat), MAY_READ);
		return used(ARGUMENT_0(regs, compat), MAY_WRITE);
	case SYSCALL_COPY:
		used(ARGUMENT_0(regs, compat), MAY_READ);
		return used(ARGUMENT_2(regs, compat), MAY_WRITE);
	case SYSCALL_MMAP:
		flags = ARGUMENT_3(regs, compat);
		if (flags & MAP_ANONYMOUS)
			return 0;
		result = ARGUMENT_2(regs, compat);
		if (result & PROT_READ)
			mask |= MAY_READ;
		if (result & PROT_EXEC)
			mask |= MAY_EXEC;
		if (result & PROT_WRITE && flags & MAP_SHARED_MASK)
			mask |= MAY_WRITE;
		return mask ? used(ARGUMENT_4(regs, compat), mask) : 0;
	}
	return 0;
}

/* Index of the first of the file's earlier names that has changed or is gone; SEEN_ALIASES if none has. */
static __always_inline u32 changed_alias(struct operation *operation, u32 *gone)
{
	for (u32 i = 0; i < SEEN_ALIASES; i++) {
		struct alias *alias = &operation->aliases[i];
		struct dentry *dentry = alias->dentry;

		if (!dentry)
			break;
		*gone = BPF_CORE_READ(dentry, d_inode) != operation->inode || !BPF_CORE_READ(dentry, d_hash.pprev);
		if (*gone || BPF_CORE_READ(dentry, d_parent) != alias->parent ||
		    BPF_CORE_READ(dentry, d_name.hash_len) != alias->hash_len)
			return i;
	}
	return SEEN_ALIASES;
}

/* A system call has ended in which a watched file was seen to change. */
static __noinline int changed(u32 slot, u32 kind, int succeeded)
{
	struct operation_key key = {};
	struct operation *operation;
	u32 gone = 0, which;

	key.thread = bpf_get_current_pid_tgid();
	key.slot = slot;
	operation = bpf_map_lookup_elem(&operations, &key);
	if (!operation)
		return 0;
	if (!succeeded)
		goto out;
	if (kind == SYSCALL_UNLINK || kind == SYSCALL_RENAME) {
		which = changed_alias(operation, &gone);
		if (which) /* only the first name was saved */
			operation->names.from_parent = 0;
		if (kind == SYSCALL_RENAME) {
			operation->access.mask = gone ? OPERATION_REPLACE : OPERATION_RENAME;
			if (!gone && which < SEEN_ALIASES)
				operation->names.to = operation->aliases[which].dentry;
		}
	} else {
		operation->names.from_parent = 0;
	}
	operation->access.verdict = VERDICT_ALLOWED;
	if (wanted(operation->filter, operation->access.mask))
		emit_named(&operation->access, &operation->names);
out:
	bpf_map_delete_elem(&operations, &key);
	return 0;
}

/* Runs after every system call of the machine, so one that accesses no file must leave after a few loads. */
SEC("raw_tp/sys_exit")
int syscall_exit(struct bpf_raw_tracepoint_args *ctx)
{
	void *regs = (void *)ctx->args[0];
	long result = ctx->args[1];
	/* x32 calls carry bit 30 and otherwise share the numbers. */
	u32 number = syscall_number(regs) & ~0x40000000;
	u8 kind;

	if (number >= SYSCALLS || !(settings.native_syscalls[number] | settings.compat_syscalls[number]))
		return 0;
	kind = is_compat() ? settings.compat_syscalls[number] : settings.native_syscalls[number];
	if (kind >= SYSCALL_TRUNCATE) {
		if (kind == SYSCALL_RENAME && state.directories)
			moved_in(result == 0);
		changed(0, kind, result == 0);
		return changed(1, kind, result == 0);
	}
	/* Only -4095..-1 are errors: the address that mmap returns may look negative. */
	if ((unsigned long)result >= (unsigned long)-4095L)
		return 0;
	return file_syscall(regs, kind, result);
}

static __always_inline u32 mask_of_kind(u32 kind)
{
	switch (kind) {
	case SYSCALL_TRUNCATE:
		return MAY_WRITE;
	case SYSCALL_UNLINK:
		return OPERATION_DELETE;
	case SYSCALL_RENAME: /* changed() decides which of the two, at the end of the call */
		return OPERATION_RENAME | OPERATION_REPLACE;
	case SYSCALL_MODE:
		return OPERATION_ATTRIBUTES | ATTRIBUTES_MODE;
	case SYSCALL_OWNER:
		return OPERATION_ATTRIBUTES | ATTRIBUTES_OWNER;
	case SYSCALL_TIMES:
		return OPERATION_ATTRIBUTES | ATTRIBUTES_TIMES;
	case SYSCALL_EXTENDED:
		return OPERATION_ATTRIBUTES | ATTRIBUTES_EXTENDED;
	}
	return 0;
}

/* A watched file changes in a system call that changed() will complete. Called more than once per system call. */
static __noinline int changing(struct inode *inode, u32 kind)
{
	struct operation_key key = {};
	struct operation *operation;
	struct hlist_node *node;

	key.thread = bpf_get_current_pid_tgid();
	operation = bpf_map_lookup_elem(&operations, &key);
	if (operation) {
		if (operation->inode == inode)
			return 0;
		key.slot = 1;
		if (bpf_map_lookup_elem(&operations, &key))
			return 0;
	}
	operation = begin_operation(inode, mask_of_kind(kind), key.slot, 0);
	if (!operation)
		return 0;
	node = BPF_CORE_READ(inode, i_dentry.first);
	for (u32 i = 0; i < SEEN_ALIASES && node; i++) {
		struct dentry *dentry = (void *)node - bpf_core_field_offset(struct dentry, d_u.d_alias);

		if (i == 0)
			name_before(operation, dentry);
		operation->aliases[i].dentry = dentry;
		operation->aliases[i].parent = BPF_CORE_READ(dentry, d_parent);
		operation->aliases[i].hash_len = BPF_CORE_READ(dentry, d_name.hash_len);
		node = BPF_CORE_READ(node, next);
	}
	return 0;
}

/*
 * Calls that change a file by its path, or change its name. In each of them, the file system sets the inode's change time,
 * which has tracepoints since 6.13, or marks the inode dirty; attached to whichever tracepoints exist.
 */
SEC("raw_tp")
int inode_changes(struct bpf_raw_tracepoint_args *ctx)
{
	struct inode *inode = (void *)ctx->args[0];
	struct target_key key = {};
	u32 number;
	u8 kind;

	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return 0;
	number = syscall_number((void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf())) & ~0x40000000;
	if (number >= SYSCALLS)
		return 0;
	kind = is_compat() ? settings.compat_syscalls[number] : settings.native_syscalls[number];
	if (kind < SYSCALL_TRUNCATE)
		return 0;
	if (kind == SYSCALL_RENAME && state.directories)
		moves(inode);
	return target_of(inode, &key) ? changing(inode, kind) : 0;
}

/*
 * A request of io_uring has no system call of its own that returns. It completes in a task that shares the
 * submitter's files: the submitter, its worker, or its polling thread.
 */
SEC("raw_tp/io_uring_complete")
int uring_complete(struct bpf_raw_tracepoint_args *ctx)
{
	struct io_kiocb *request = (void *)ctx->args[1];
	s32 result;

	/* Before 5.19, the tracepoint has no request as argument. It is 0 for completions without a request. */
	if (!bpf_core_field_exists(struct io_kiocb, cqe) || !request)
		return 0;
	result = BPF_CORE_READ(request, cqe.res);
	if (result < 0)
		return 0;
	switch (BPF_CORE_READ(request, opcode)) {
	case IORING_OP_OPENAT:
	case IORING_OP_OPENAT2:
		return opened(result, 0);
	case IORING_OP_READ:
	case IORING_OP_READV:
	case IORING_OP_READ_FIXED:
		return used_file(BPF_CORE_READ(request, file), MAY_READ);
	case IORING_OP_WRITE:
	case IORING_OP_WRITEV:
	case IORING_OP_WRITE_FIXED:
	case IORING_OP_FALLOCATE:
	case IORING_OP_FTRUNCATE:
		return used_file(BPF_CORE_READ(request, file), MAY_WRITE);
	}
	return 0;
}

SEC("raw_tp/sched_process_exec")
int process_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct linux_binprm *program = (void *)ctx->args[2];
	struct inode *inode = BPF_CORE_READ(program, file, f_inode);
	struct target_key key = {};
	struct target *target = target_of(inode, &key);

	return target ? touched(inode, target, &key, MAY_EXEC | MAY_OPEN) : 0;
}

#endif
