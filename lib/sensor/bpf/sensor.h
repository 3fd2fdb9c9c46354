/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Layouts that the sensor's programs share with lib/sensor. layout.ts mirrors every offset and must change with this
 * file; layout.test.ts compares it with the object's BTF.
 */
#ifndef RAMPART_SENSOR_H
#define RAMPART_SENSOR_H

#include "kernel.h"

/* Limits of the texts in one record, in bytes; longer texts are cut and flagged. */
#define PATH_BYTES 1024
#define NAME_BYTES 256 /* NAME_MAX + 1 */
#define ARGUMENT_BYTES 1024
#define PATH_STEPS 64 /* components and mount crossings */
#define CGROUP_STEPS 16

#define SYSCALLS 548 /* the highest number on x86_64 (547, of x32) + 1; other tables are shorter */

/* An access without any of these bits counts as a mere open: see wanted() in admit.h. */
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
	u32 lent;	/* a copy of the directory's target, see arrivals.h */
};

/* How long user space has to add a file that arrived in a watched directory to `targets`. */
#define ARRIVAL_NS 10000000000ULL

/*
 * Operations for which the kernel checks no permission of the file itself; in the mask, above the kernel's bits. The last
 * four say which attributes are set.
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
	u64 bucket_born_ns; /* identifies the rate limit's bucket, together with target and pid; 0: no bucket */
	u32 device;
	u32 mask; /* MAY_* and enum operation_bits */
	u32 target_id;
	u32 folded_total; /* by the bucket, since its creation */
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
	u64 executable_inode; /* of the file itself, whatever its names; 0: no executable */
	u32 executable_device;
	u32 executable_generation;
	/*
	 * followed by: the components of the executable and of the cwd, leaf first, each ended by NUL; argv as in memory; the
	 * components of the cgroup, all or none, so that deep nesting cannot hide only the outermost ones; for operations on
	 * names, the components of the old and of the new name
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
	struct dentry *name; /* appended to the record as `to`; 0: no name */
};

/* Written by the programs, read by user space through the mapping of .bss. produced = emitted + folded + lost_*. */
struct counters {
	u64 produced;
	u64 emitted;
	u64 folded;
	u64 lost_ring_full;
	u64 lost_no_return; /* kprobe mode, filled in by user space: the return was missed */
	u64 recycled;	    /* not produced: the inode number now belongs to another file */
	u64 own;	    /* not produced: the agent's own accesses */
	u64 verdict_unknown;
	u64 busy; /* not produced: another program was building a record on this CPU */
};

/* The identify program's result for one file descriptor of the calling process. */
struct identity {
	u64 inode;
	u32 device;
	u32 generation;
	u32 pid; /* of the caller, in the initial pid namespace */
	s32 error;
};

/* .bss: shared with user space while the sensor is open. */
struct state {
	struct counters counters;
	struct identity identity;
	u32 agent_pid; /* in the initial pid namespace; its accesses are not reported */
	u32 epoch;     /* of changes.bpf.c: user space increments it each time it has read the whole ring */
	u64 arrived_ns; /* when a file last arrived in a watched directory; user space resets it to 0 long after that */
	u32 directories; /* how many are watched; set by user space */
	u32 zero;
};

/* .rodata: set before loading. */
struct settings {
	/* Interval between accesses of one bucket, and how far it may run ahead, both in nanoseconds; interval 0: no limit. */
	u64 nanoseconds_per_access;
	u64 burst_ns;
	/* enum syscall_kind by number, for native and for 32-bit system calls */
	u8 native_syscalls[SYSCALLS];
	u8 compat_syscalls[SYSCALLS];
};

/* How a system call accesses a file, with the arguments that identify it. */
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
	/* For these, other hooks see the file during the call. */
	SYSCALL_TRUNCATE,
	SYSCALL_UNLINK,
	SYSCALL_RENAME,
	SYSCALL_MODE,
	SYSCALL_OWNER,
	SYSCALL_TIMES,
	SYSCALL_EXTENDED,
};

#endif
