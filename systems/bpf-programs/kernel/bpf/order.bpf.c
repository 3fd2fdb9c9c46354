/* Programs of the tests: each writes its digit behind those that ran before it. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define COUNTED 0x88b5

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} trace SEC(".maps");

volatile const __u64 digit = 0;
volatile const __s32 verdict = 0;

static __always_inline void write(void *data, void *end) {
  struct ethhdr *eth = data;
  __u32 key = 0;
  __u64 *value;

  if ((void *)(eth + 1) > end || eth->h_proto != bpf_htons(COUNTED)) return;
  value = bpf_map_lookup_elem(&trace, &key);
  if (value) *value = *value * 10 + digit;
}

SEC("xdp.frags") int xdp_trace(struct xdp_md *ctx) {
  write((void *)(long)ctx->data, (void *)(long)ctx->data_end);
  return verdict;
}

SEC("tc") int tc_trace(struct __sk_buff *skb) {
  write((void *)(long)skb->data, (void *)(long)skb->data_end);
  return verdict;
}

SEC("tcx/ingress") int tcx_trace(struct __sk_buff *skb) {
  write((void *)(long)skb->data, (void *)(long)skb->data_end);
  return verdict;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
