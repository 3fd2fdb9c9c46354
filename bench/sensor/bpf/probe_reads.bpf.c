// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The sensor as it runs on kernels before 6.2, where each field of a kernel structure costs a helper call. */
#define bpf_rdonly_cast rampart_no_such_kfunc /* a weak symbol: null, because no such kfunc exists */
#include "../../../lib/sensor/bpf/sensor.bpf.c"
