/* Counts packets, and lets them pass. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} packets SEC(".maps");

SEC("xdp") int count(struct xdp_md *ctx) {
  __u32 key = 0;
  __u64 *value = bpf_map_lookup_elem(&packets, &key);

  if (value) __sync_fetch_and_add(value, 1);
  return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
