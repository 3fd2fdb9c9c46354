/* Programs of the tests: the XDP programs of samples that have the names of others for TC. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

volatile const __u8 GLOBAL_u8 = 0;
volatile const __u32 GLOBAL_u32 = 0;

SEC("xdp") int pass(struct xdp_md *ctx) { return XDP_PASS; }
SEC("xdp") int stats(struct xdp_md *ctx) { return XDP_PASS; }

char LICENSE[] SEC("license") = "GPL";
