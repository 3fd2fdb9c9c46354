/* Programs of the tests: how often something happened. Sections name other places than the tests attach to. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} packets SEC(".maps");

static __always_inline int hit(void) {
  __u32 key = 0;
  __u64 *value = bpf_map_lookup_elem(&packets, &key);

  if (value) __sync_fetch_and_add(value, 1);
  return 0;
}

SEC("kprobe/nowhere") int on_kprobe(void *ctx) { return hit(); }
SEC("uprobe/nowhere") int on_uprobe(void *ctx) { return hit(); }
SEC("tracepoint/no/where") int on_tracepoint(void *ctx) { return hit(); }
SEC("fentry/nowhere") int on_fentry(void *ctx) { return hit(); }
SEC("fexit/nowhere") int on_fexit(void *ctx) { return hit(); }

char LICENSE[] SEC("license") = "GPL";
