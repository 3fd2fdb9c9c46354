/**
 * What a program of a namespaced kind may do. Its author administers a namespace, not the node: a program must not read or change anything
 * outside of the selected pods, or take unbounded time or memory.
 */
import type { AttachType } from '../desired.ts';

export interface AllowedHelpers {
  readonly of: readonly string[];
  readonly why: string;
  /** The types of programs that may call them. Undefined: all types. */
  readonly only?: 'packets' | 'uprobes';
}

const list = (text: string): readonly string[] =>
  text
    .trim()
    .split(/\s+/)
    .map((name) => `bpf_${name}`);

/** The table in docs/bpf-programs.md is generated from this list, in the same order. */
export const allowedHelpers: readonly AllowedHelpers[] = [
  {
    of: list(`map_lookup_elem map_update_elem map_delete_elem map_lookup_percpu_elem
      map_push_elem map_pop_elem map_peek_elem spin_lock spin_unlock`),
    why: 'the maps of the program itself',
  },
  {
    of: list(`ringbuf_output ringbuf_reserve ringbuf_submit ringbuf_discard ringbuf_query
      ringbuf_reserve_dynptr ringbuf_submit_dynptr ringbuf_discard_dynptr perf_event_output`),
    why: 'writes records into a map of the program',
  },
  {
    of: list('dynptr_from_mem dynptr_read dynptr_write dynptr_data'),
    why: 'memory of the program itself',
  },
  { of: list('tail_call'), why: 'programs of its own map; the kernel follows 33 calls' },
  {
    of: list('ktime_get_ns ktime_get_boot_ns ktime_get_coarse_ns ktime_get_tai_ns jiffies64'),
    why: 'clocks, which every process can read',
  },
  {
    of: list('get_prandom_u32 get_smp_processor_id get_numa_node_id'),
    why: 'random numbers; the CPU on which it runs',
  },
  { of: list('strtol strtoul strncmp'), why: 'texts in memory of the program' },
  {
    of: list('trace_printk trace_vprintk'),
    why: 'does nothing: see below',
  },
  {
    of: list(`skb_load_bytes skb_load_bytes_relative skb_store_bytes skb_pull_data skb_change_tail skb_change_head
      skb_adjust_room skb_change_proto skb_change_type skb_vlan_push skb_vlan_pop skb_set_tstamp
      xdp_adjust_head xdp_adjust_tail xdp_adjust_meta xdp_load_bytes xdp_store_bytes xdp_get_buff_len`),
    why: 'the packet',
    only: 'packets',
  },
  {
    of: list('l3_csum_replace l4_csum_replace csum_diff csum_update csum_level'),
    why: 'checksums of the packet',
    only: 'packets',
  },
  {
    of: list('get_hash_recalc set_hash set_hash_invalid get_route_realm'),
    why: 'what the kernel notes of the packet',
    only: 'packets',
  },
  {
    of: list('redirect redirect_neigh fib_lookup check_mtu'),
    why: 'interfaces and routes of the network namespace of the pod',
    only: 'packets',
  },
  {
    of: list(`sk_fullsock tcp_sock get_listener_sock skb_ecn_set_ce
      get_socket_cookie get_socket_uid get_netns_cookie`),
    why: 'the socket of the packet',
    only: 'packets',
  },
  {
    of: list('probe_read_user probe_read_user_str'),
    why: 'memory of the process that runs into the probe; for a packet, it would be that of any process',
    only: 'uprobes',
  },
  {
    of: list('get_current_pid_tgid get_ns_current_pid_tgid get_current_uid_gid get_current_comm'),
    why: 'the process that runs into the probe',
    only: 'uprobes',
  },
];

/**
 * Calls of these helpers are replaced so that they do nothing, unless an option allows them: their output can reveal any kernel memory
 * (`%s`, `%pI4`).
 */
export const droppedHelpers: ReadonlySet<string> = new Set(list('trace_printk trace_vprintk'));

const packetTypes: ReadonlySet<AttachType> = new Set(['tc', 'tcx', 'xdp']);

/** Program types that namespaced kinds have: those that can be confined to pods. */
export const tenantTypes: ReadonlySet<string> = new Set<AttachType>([...packetTypes, 'uprobe', 'uretprobe']);

export function isAllowedHelper(name: string, type: AttachType): boolean {
  const kind = packetTypes.has(type) ? 'packets' : 'uprobes';
  return allowedHelpers.some(({ of, only }) => (only === undefined || only === kind) && of.includes(name));
}
