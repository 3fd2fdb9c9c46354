/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Operations on a file's names and attributes. The file and its names are known before the operation, the result only after
 * it: `operations` keeps them in between.
 */
#ifndef RAMPART_OPERATIONS_H
#define RAMPART_OPERATIONS_H

#include "admit.h"

#define SEEN_ALIASES 4

/* A name of the file before the operation. */
struct alias {
	struct dentry *dentry;
	struct dentry *parent;
	u64 hash_len;
};

struct operation_key {
	u64 thread;
	u32 slot; /* a rename may affect two files: 0 is the one that is renamed, 1 the other */
	u32 zero;
};

struct operation {
	u64 token; /* identifies the call, because a nested call of the same kind ends before it */
	struct access access;
	struct dentry *to_denied; /* replaces names.to if the operation was denied */
	struct inode *inode;
	u32 filter; /* copied from the target, which may be removed with its file before the call ends */
	u32 zero;
	struct alias aliases[SEEN_ALIASES];
	struct names names;
};

/* An entry is deleted when its call ends. LRU, because an end can be missed. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct operation_key);
	__type(value, struct operation);
} operations SEC(".maps");

/* All zero: the initial value of an operation, which is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct operation);
} no_operation SEC(".maps");

/* Stores an operation of the current thread if the file is a target whose filter includes `mask`; otherwise returns 0. */
static __always_inline struct operation *begin_operation(struct inode *inode, u32 mask, u32 slot, u64 token)
{
	struct operation_key key = {};
	struct target_key file = {};
	struct operation *operation;
	struct target *target;
	u32 zero = 0;

	if (!inode)
		return 0;
	file.inode = BPF_CORE_READ(inode, i_ino);
	file.device = BPF_CORE_READ(inode, i_sb, s_dev);
	target = find_target(&file);
	if (!target)
		return 0;
	operation = bpf_map_lookup_elem(&no_operation, &zero);
	if (!operation)
		return 0;
	key.thread = bpf_get_current_pid_tgid();
	key.slot = slot;
	if (bpf_map_update_elem(&operations, &key, operation, BPF_ANY))
		return 0;
	operation = bpf_map_lookup_elem(&operations, &key);
	if (!operation)
		return 0;
	operation->token = token;
	operation->inode = inode;
	operation->filter = target->filter;
	operation->access.inode = file.inode;
	operation->access.device = file.device;
	operation->access.mask = mask;
	if (admit(target, inode, &operation->access))
		return operation;
	bpf_map_delete_elem(&operations, &key);
	return 0;
}

static __always_inline void name_before(struct operation *operation, struct dentry *dentry)
{
	operation->names.from_parent = BPF_CORE_READ(dentry, d_parent);
	bpf_probe_read_kernel_str(operation->names.from_name, NAME_BYTES, BPF_CORE_READ(dentry, d_name.name));
}

/* The operation in a slot has ended. `token` and `slack`: see TRAMPOLINE_BYTES; slack 0: the tokens must be equal. */
static __noinline int end_operation(u32 slot, int result, u64 token, u32 slack)
{
	struct operation_key key = {};
	struct operation *operation;

	key.thread = bpf_get_current_pid_tgid();
	key.slot = slot;
	operation = bpf_map_lookup_elem(&operations, &key);
	if (!operation || (slack ? token + slack < operation->token : token != operation->token))
		return 0;
	if (!result || result == -EPERM || result == -EACCES || result == -EROFS) {
		operation->access.verdict = result ? VERDICT_DENIED : VERDICT_ALLOWED;
		if (result && operation->to_denied)
			operation->names.to = operation->to_denied;
		emit_named(&operation->access, &operation->names);
	}
	bpf_map_delete_elem(&operations, &key);
	return 0;
}

static __always_inline int begin_unlink(struct dentry *dentry, u64 token)
{
	struct operation *operation = begin_operation(BPF_CORE_READ(dentry, d_inode), OPERATION_DELETE, 0, token);

	if (operation)
		name_before(operation, dentry);
	return 0;
}

static __always_inline int begin_rename(struct dentry *from, struct dentry *to, u32 flags, u64 token)
{
	struct inode *inode = BPF_CORE_READ(from, d_inode);
	struct operation *operation = begin_operation(inode, OPERATION_RENAME, 0, token);

	if (state.directories)
		moves(inode);
	if (operation) {
		name_before(operation, from);
		/* After the rename, this dentry has the new name (fs/dcache.c, __d_move). */
		operation->names.to = from;
		operation->to_denied = to;
	}
	operation = begin_operation(BPF_CORE_READ(to, d_inode),
				    flags & RENAME_EXCHANGE ? OPERATION_RENAME : OPERATION_REPLACE, 1, token);
	if (operation) {
		name_before(operation, to);
		if (flags & RENAME_EXCHANGE) {
			operation->names.to = to;
			operation->to_denied = from;
		}
	}
	return 0;
}

static __always_inline int begin_attributes(struct dentry *dentry, u32 which, u64 token)
{
	if (which)
		begin_operation(BPF_CORE_READ(dentry, d_inode), OPERATION_ATTRIBUTES | which, 0, token);
	return 0;
}

/* Which attributes a struct iattr sets; 0 for a truncation, which counts as a write. */
static __always_inline u32 attributes_of(struct iattr *attributes)
{
	u32 valid = BPF_CORE_READ(attributes, ia_valid), which = 0;

	if (valid & ATTR_SIZE)
		return 0;
	if (valid & ATTR_MODE)
		which |= ATTRIBUTES_MODE;
	if (valid & (ATTR_UID | ATTR_GID))
		which |= ATTRIBUTES_OWNER;
	if (valid & (ATTR_ATIME | ATTR_MTIME))
		which |= ATTRIBUTES_TIMES;
	return which;
}

/* The mask that the kernel passes to may_open for these flags (fs/open.c, build_open_flags). */
static __always_inline u32 open_mask(u32 flags)
{
	u32 mode = flags & O_ACCMODE, mask = MAY_OPEN;

	mask |= mode == 0 ? MAY_READ : mode == 1 ? MAY_WRITE : MAY_READ | MAY_WRITE;
	if (flags & O_TRUNC)
		mask |= MAY_WRITE;
	if (flags & O_APPEND)
		mask |= MAY_APPEND;
	return mask;
}

/*
 * A file is opened, by vfs_open(path, file). The kernel checks no permission of a file that this open creates (fs/namei.c,
 * do_open), so both its arrival in the directory and its open are reported from here.
 */
static __always_inline int open_created(struct dentry *dentry, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(dentry, d_inode);
	struct target_key key = {};
	struct access access = {};
	struct target *target;

	if (!inode || !(BPF_CORE_READ(file, f_mode) & FMODE_CREATED))
		return 0;
	key.inode = BPF_CORE_READ(inode, i_ino);
	key.device = BPF_CORE_READ(inode, i_sb, s_dev);
	target = arrived(BPF_CORE_READ(dentry, d_parent, d_inode), inode, &key);
	if (!target)
		return 0;
	access.inode = key.inode;
	access.device = key.device;
	access.mask = open_mask(BPF_CORE_READ(file, f_flags));
	access.verdict = VERDICT_ALLOWED;
	return admit(target, inode, &access) ? emit(&access) : 0;
}

#endif
