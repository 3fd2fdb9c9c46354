/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Arguments from registers: of a probed function, and of the current system call. */
#ifndef RAMPART_REGISTERS_H
#define RAMPART_REGISTERS_H

#include "read.h"

/* Reads with a helper: the verifier rejects loads from the context at an offset that CO-RE put in a register. */
#define REGISTER(ctx, x86, arm64)                                                                            \
	(ON_X86 ? (u64)BPF_CORE_READ((struct pt_regs___x86 *)(ctx), x86) :                                  \
		  (u64)BPF_CORE_READ((struct pt_regs___arm64 *)(ctx), arm64))

/* A field of the registers, by a typed load where the kernel supports it: this runs in every system call. */
#define REGS_FIELD(type, regs, field)                                                                        \
	(bpf_rdonly_cast ? (u64)TYPED(type, regs)->field : (u64)BPF_CORE_READ((type *)(regs), field))

/* One argument of the system call with these registers. */
#define ARGUMENT(regs, compat, x86, x86_compat, arm64)                                                       \
	(ON_X86 ? ((compat) ? REGS_FIELD(struct pt_regs___x86, regs, x86_compat) :                          \
			      REGS_FIELD(struct pt_regs___x86, regs, x86)) :                                \
		  REGS_FIELD(struct pt_regs___arm64, regs, arm64))
#define ARGUMENT_0(regs, compat) ARGUMENT(regs, compat, di, bx, orig_x0)
#define ARGUMENT_1(regs, compat) ARGUMENT(regs, compat, si, cx, regs[1])
#define ARGUMENT_2(regs, compat) ARGUMENT(regs, compat, dx, dx, regs[2])
#define ARGUMENT_3(regs, compat) ARGUMENT(regs, compat, r10, si, regs[3])
#define ARGUMENT_4(regs, compat) ARGUMENT(regs, compat, r8, di, regs[4])

static __always_inline u32 syscall_number(void *regs)
{
	return ON_X86 ? REGS_FIELD(struct pt_regs___x86, regs, orig_ax) :
			REGS_FIELD(struct pt_regs___arm64, regs, syscallno);
}

/* Whether the current system call uses the 32-bit system call numbers. */
static __always_inline int is_compat(void)
{
	void *info = (void *)bpf_get_current_task(); /* task_struct begins with thread_info */

	if (bpf_core_field_exists(struct thread_info___x86, status)) {
		if (bpf_rdonly_cast)
			return !!(TYPED(struct thread_info___x86, info)->status & TS_COMPAT);
		return !!(BPF_CORE_READ((struct thread_info___x86 *)info, status) & TS_COMPAT);
	}
	if (bpf_rdonly_cast)
		return TYPED(struct thread_info, info)->flags >> TIF_32BIT & 1;
	return BPF_CORE_READ((struct thread_info *)info, flags) >> TIF_32BIT & 1;
}

#endif
