/** Names of the kernel's types, as in its headers but in lower case. */

/** `enum bpf_prog_type` of include/uapi/linux/bpf.h. */
const programTypeNames: readonly string[] =
  `unspec socket_filter kprobe sched_cls sched_act tracepoint xdp perf_event cgroup_skb cgroup_sock lwt_in lwt_out
  lwt_xmit sock_ops sk_skb cgroup_device sk_msg raw_tracepoint cgroup_sock_addr lwt_seg6local lirc_mode2 sk_reuseport
  flow_dissector cgroup_sysctl raw_tracepoint_writable cgroup_sockopt tracing struct_ops ext lsm sk_lookup syscall
  netfilter`.split(/\s+/);

/** The type's name; its number if it has no name. */
export function programTypeName(type: number): string {
  return programTypeNames[type] ?? String(type);
}

/** `enum bpf_map_type` of include/uapi/linux/bpf.h. */
export const mapTypeNames: readonly string[] =
  `unspec hash array prog_array perf_event_array percpu_hash percpu_array stack_trace cgroup_array lru_hash
  lru_percpu_hash lpm_trie array_of_maps hash_of_maps devmap sockmap cpumap xskmap sockhash cgroup_storage
  reuseport_sockarray percpu_cgroup_storage queue stack sk_storage devmap_hash struct_ops ringbuf inode_storage
  task_storage bloom_filter user_ringbuf cgrp_storage arena`.split(/\s+/);

/** The type's name; its number if it has no name. */
export function mapTypeName(type: number): string {
  return mapTypeNames[type] ?? String(type);
}
