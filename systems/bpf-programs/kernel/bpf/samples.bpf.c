/* Programs of the tests, with the names and variables that the samples of bpfman-operator ask for. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} packets SEC(".maps");

volatile const __u8 GLOBAL_u8 = 0;
volatile const __u32 GLOBAL_u32 = 0;

volatile const __u32 sampling = 0;
volatile const __u8 trace_messages = 0;
volatile const __u8 enable_rtt = 0;
volatile const __u8 enable_pca = 0;
volatile const __u8 enable_dns_tracking = 0;
volatile const __u8 enable_flows_filtering = 0;
volatile const __u16 dns_port = 0;
volatile const __u8 enable_network_events_monitoring = 0;
volatile const __u8 network_events_monitoring_groupid = 0;

static __always_inline void hit(void) {
  __u32 key = 0;
  __u64 *value = bpf_map_lookup_elem(&packets, &key);

  if (value) __sync_fetch_and_add(value, 1);
}

SEC("xdp") int xdp_stats(struct xdp_md *ctx) { hit(); return XDP_PASS; }
SEC("tc") int stats(struct __sk_buff *skb) { hit(); return TC_ACT_OK; }
SEC("tc") int pass(struct __sk_buff *skb) { hit(); return TC_ACT_OK; }
SEC("tc") int tcx_stats(struct __sk_buff *skb) { hit(); return TC_ACT_UNSPEC; }
SEC("tc") int tcx_next(struct __sk_buff *skb) { hit(); return TC_ACT_UNSPEC; }
SEC("tc") int tcx_pass(struct __sk_buff *skb) { hit(); return TC_ACT_OK; }
SEC("kprobe") int kprobe_counter(void *ctx) { hit(); return 0; }
SEC("kprobe") int my_kprobe(void *ctx) { hit(); return 0; }
SEC("kprobe") int kprobe_globals(void *ctx) { hit(); return 0; }
SEC("uprobe") int uprobe_counter(void *ctx) { hit(); return 0; }
SEC("uprobe") int my_uprobe(void *ctx) { hit(); return 0; }
SEC("tracepoint") int tracepoint_kill_recorder(void *ctx) { hit(); return 0; }
SEC("tracepoint") int enter_openat(void *ctx) { hit(); return 0; }
SEC("fentry/do_unlinkat") int test_fentry(void *ctx) { hit(); return 0; }
SEC("fexit/do_unlinkat") int test_fexit(void *ctx) { hit(); return 0; }

char LICENSE[] SEC("license") = "GPL";
