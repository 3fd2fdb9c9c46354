/** `enum bpf_prog_type` of include/uapi/linux/bpf.h. */
const names: readonly string[] =
  `unspec socket_filter kprobe sched_cls sched_act tracepoint xdp perf_event cgroup_skb cgroup_sock lwt_in lwt_out
  lwt_xmit sock_ops sk_skb cgroup_device sk_msg raw_tracepoint cgroup_sock_addr lwt_seg6local lirc_mode2 sk_reuseport
  flow_dissector cgroup_sysctl raw_tracepoint_writable cgroup_sockopt tracing struct_ops ext lsm sk_lookup syscall
  netfilter`.split(/\s+/);

/** A number without a name is shown as it is. */
export function programTypeName(type: number): string {
  return names[type] ?? String(type);
}
