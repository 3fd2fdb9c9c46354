/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the sensor's programs and the files of lib/sensor agree on. A change here is a change there:
 * layout.ts mirrors every offset, and layout.test.ts reads them back from the object's BTF.
 */
#ifndef RAMPART_SENSOR_H
#define RAMPART_SENSOR_H

#include "kernel.h"

/* Bounds of what one record can carry, in bytes; what is longer is cut and flagged. */
#define PATH_BYTES 1024
#define NAME_BYTES 256 /* NAME_MAX + 1 */
#define ARGUMENT_BYTES 1024
#define PATH_STEPS 64 /* components and mount crossings */
#define CGROUP_STEPS 16

#define SYSCALLS 548 /* x86_64's last number (x32's 547) + 1; other tables are shorter */

/* What the filter and the record call a mask with no read, write, execute or append in it. */
#define ANY_RWXA (MAY_READ | MAY_WRITE | MAY_EXEC | MAY_APPEND)

struct target_key {
	u64 inode;
	u32 device;
	u32 zero;
};

struct target {
	u32 filter;
	u32 generation; /* 0: not known, every generation matches */
	u32 id;		/* never reused while the sensor is open */
	u32 lent;	/* it is that of the file's directory, see arrivals.h */
};

/* So long user space has to put a file in `targets` that came in a watched directory. */
#define ARRIVAL_NS 10000000000ULL

/*
 * Operations that the kernel asks no permission of the file for; in the mask above the kernel's bits. The last four say
 * which attributes.
 */
enum operation_bits {
	OPERATION_DELETE = 0x100,
	OPERATION_RENAME = 0x200,
	OPERATION_REPLACE = 0x400,
	OPERATION_ATTRIBUTES = 0x800,
	ATTRIBUTES_MODE = 0x1000,
	ATTRIBUTES_OWNER = 0x2000,
	ATTRIBUTES_TIMES = 0x4000,
	ATTRIBUTES_EXTENDED = 0x8000,
};
#define ANY_OPERATION (OPERATION_DELETE | OPERATION_RENAME | OPERATION_REPLACE | OPERATION_ATTRIBUTES)

enum verdict { VERDICT_UNKNOWN, VERDICT_ALLOWED, VERDICT_DENIED };

enum record_flags {
	EXECUTABLE_CUT = 1,
	CWD_CUT = 2,
	ARGUMENTS_CUT = 4,
	EXECUTABLE_DELETED = 8,
	ARGUMENTS_UNREADABLE = 16,
	CGROUP_CUT = 32,
	NAMES_OF_FILE_SYSTEM = 64,
};

struct record {
	u64 time_ns; /* CLOCK_MONOTONIC */
	u64 inode;
	u64 cgroup_id;
	u64 bucket_born_ns; /* names the rate limit's bucket together with target and pid; 0: none */
	u32 device;
	u32 mask; /* MAY_* and enum operation_bits */
	u32 target_id;
	u32 folded_total; /* by the bucket, since it was born */
	u32 tid;
	u32 pid;
	u32 ppid;
	u32 uid;
	u32 gid;
	u32 pid_namespace;
	u32 mount_namespace;
	u8 verdict;
	u8 flags;
	u16 executable_bytes;
	u16 cwd_bytes;
	u16 argument_bytes;
	u16 cgroup_bytes;
	u16 from_bytes;
	char comm[16];
	u16 to_bytes;
	u16 zero[3];
	u64 executable_inode; /* of the file itself, whatever names lead to it; 0: none */
	u32 executable_device;
	u32 executable_generation;
	/*
	 * then: the executable's and the cwd's components, leaf first, each ended by NUL; argv as the kernel has it; the
	 * components of the cgroup, none where they did not fit: who nests many may not hide the outermost;
	 * of operations on names: the components of the name before, and of the one behind
	 */
};

/* One access on its way from a hook to a record. */
struct access {
	u64 time_ns;
	u64 inode;
	u32 device;
	u32 mask;
	u32 target_id;
	u32 verdict;
	struct dentry *name; /* put behind the record as `to`; 0: none */
};

/* Written by the programs, read by user space through the mapping of .bss. produced = emitted + folded + lost_*. */
struct counters {
	u64 produced;
	u64 emitted;
	u64 folded;
	u64 lost_ring_full;
	u64 lost_no_return; /* kprobe mode, filled by user space: the return was never seen */
	u64 recycled;	    /* not produced: the inode number now belongs to another file */
	u64 own;	    /* not produced: the agent's own accesses */
	u64 verdict_unknown;
	u64 busy; /* not produced: another program's record was being made on this CPU */
};

/* What the identify program found out about one file descriptor of the calling process. */
struct identity {
	u64 inode;
	u32 device;
	u32 generation;
	u32 pid; /* of the caller, in the first pid namespace */
	s32 error;
};

/* .bss: shared with user space while the sensor is open. */
struct state {
	struct counters counters;
	struct identity identity;
	u32 agent_pid; /* in the first pid namespace: its own accesses raise nothing */
	u32 epoch;     /* of changes.bpf.c: moved on by user space each time it has read all */
	u64 arrived_ns; /* a file came in a watched directory; set to 0 by user space when that is long ago */
	u32 directories; /* how many are watched, set by user space */
	u32 zero;
};

/* .rodata: set before loading. */
struct settings {
	/* The pace of one bucket and how far it may run ahead, both in nanoseconds; 0: no limit. */
	u64 nanoseconds_per_access;
	u64 burst_ns;
	/* enum syscall_kind by number, for this architecture and for its 32-bit gate */
	u8 native_syscalls[SYSCALLS];
	u8 compat_syscalls[SYSCALLS];
};

/* How one system call can touch a file, and where its arguments say so. */
enum syscall_kind {
	SYSCALL_NONE,
	SYSCALL_OPEN,	  /* (path, flags) = fd */
	SYSCALL_OPENAT,	  /* (dir, path, flags) = fd; open_by_handle_at is alike */
	SYSCALL_OPENAT2,  /* (dir, path, how) = fd */
	SYSCALL_READ,	  /* (fd) */
	SYSCALL_WRITE,	  /* (fd) */
	SYSCALL_SENDFILE, /* (out, in) */
	SYSCALL_COPY,	  /* (in, offset, out): copy_file_range, splice */
	SYSCALL_MMAP,	  /* (address, length, prot, flags, fd) */
	/* These reach the file by other hooks, in the middle of the call. */
	SYSCALL_TRUNCATE,
	SYSCALL_UNLINK,
	SYSCALL_RENAME,
	SYSCALL_MODE,
	SYSCALL_OWNER,
	SYSCALL_TIMES,
	SYSCALL_EXTENDED,
};

#endif
