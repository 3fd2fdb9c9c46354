/* Programs of the tests: packets of one ethertype are counted, so that what the kernel sends by itself does not matter. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* ETH_P_802_EX1: for experiments on one's own network. */
#define COUNTED 0x88b5

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} packets SEC(".maps");

volatile const __u32 xdp_verdict = XDP_PASS;
volatile const __s32 tc_verdict = TC_ACT_PIPE;
/* What each packet adds. */
__u64 step = 1;

static __always_inline void count(void *data, void *end) {
  struct ethhdr *eth = data;
  __u32 key = 0;
  __u64 *value;

  if ((void *)(eth + 1) > end || eth->h_proto != bpf_htons(COUNTED)) return;
  value = bpf_map_lookup_elem(&packets, &key);
  if (value) __sync_fetch_and_add(value, step);
}

SEC("xdp") int xdp_count(struct xdp_md *ctx) {
  count((void *)(long)ctx->data, (void *)(long)ctx->data_end);
  return xdp_verdict;
}

/* A section that libbpf has no type for. */
SEC("classifier/stats") int tc_count(struct __sk_buff *skb) {
  count((void *)(long)skb->data, (void *)(long)skb->data_end);
  return tc_verdict;
}

char LICENSE[] SEC("license") = "GPL";
