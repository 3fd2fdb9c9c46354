/* A program of the tests: values of many types. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

enum colour { RED = 1, BLUE = 7 };
typedef unsigned long long big;

struct key {
  __u16 port;
  __u8 bytes[2];
};

struct value {
  big many;
  int below;
  _Bool yes;
  char name[16];
  enum colour colour;
  unsigned low : 3, high : 5;
  union {
    __u32 whole;
    __u16 halves[2];
  };
};

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 8);
  __type(key, struct key);
  __type(value, struct value);
} table SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 2);
  __type(key, __u32);
  __type(value, __u32);
} each_cpu SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 4096);
} ring SEC(".maps");

SEC("xdp") int xdp_values(struct xdp_md *ctx) {
  struct key key = {.port = 80, .bytes = {1, 2}};
  struct value value = {.many = 1ULL << 60, .below = -5, .yes = 1, .name = "eth0", .colour = BLUE, .low = 5, .high = 17};
  __u32 zero = 0;
  __u32 *count = bpf_map_lookup_elem(&each_cpu, &zero);
  void *room = bpf_ringbuf_reserve(&ring, 8, 0);

  if (room) bpf_ringbuf_discard(room, 0);
  if (count) *count += 1;
  value.whole = 0x20001;
  bpf_map_update_elem(&table, &key, &value, BPF_ANY);
  return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
