/* Programs of the tests that are hard to compose, or to load at all. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} packets SEC(".maps");

/* As `packets` of count.bpf.c, but for the size of its values. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 2);
  __type(key, __u32);
  __type(value, __u64);
} trace SEC(".maps");

static __noinline int add(__u64 much) {
  __u32 key = 0;
  __u64 *value = bpf_map_lookup_elem(&packets, &key);

  if (value) __sync_fetch_and_add(value, much);
  return value ? XDP_PASS : XDP_ABORTED;
}

__noinline int whole(struct xdp_md *ctx) { return ctx->data_end > ctx->data; }

static long each(__u32 at, void *much) {
  *(__u64 *)much += 1;
  return 0;
}

/* Functions, one of them global, and a callback. */
SEC("xdp") int xdp_functions(struct xdp_md *ctx) {
  __u64 much = 0;

  if (!whole(ctx)) return XDP_PASS;
  bpf_loop(3, each, &much, 0);
  return add(much);
}

/* All the stack there is: it loads alone, and cannot be called by another one. */
SEC("xdp") int xdp_stack(struct xdp_md *ctx) {
  volatile char much[508];
  __u32 index = ctx->rx_queue_index & 255;

  for (int i = 0; i < 508; i++) much[i] = i;
  return much[index] == 1 ? XDP_DROP : XDP_PASS;
}

/* The verifier refuses it: nobody looked whether the packet is that long. */
SEC("xdp") int xdp_refused(struct xdp_md *ctx) {
  __u8 *data = (void *)(long)ctx->data;

  return data[100] ? XDP_DROP : XDP_PASS;
}

/* A map of another shape than that of order.bpf.c. */
SEC("xdp") int xdp_shape(struct xdp_md *ctx) {
  __u32 key = 1;

  return bpf_map_lookup_elem(&trace, &key) ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
