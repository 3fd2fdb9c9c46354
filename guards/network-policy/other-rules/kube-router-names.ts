/**
 * Names of kube-router's objects for network policies: npc_nftables.go and network_policy_controller.go of version
 * 2.11; k3s embeds an older one, with the same names. The names of our iptables chains and sets are similar:
 * `isOurChain` and `isOurSet` tell them apart.
 */
export const kubeRouterTables: readonly string[] = [
  'ip kube-router-filter-ipv4',
  'ip6 kube-router-filter-ipv6',
];

export function isKubeRouterChain(name: string): boolean {
  return /^KUBE-(?:POD-FW-|NWPLCY-|ROUTER-(?:INPUT|FORWARD|OUTPUT)$)/.test(name);
}

export function isKubeRouterSet(name: string): boolean {
  return /^(?:inet6:)?(?:KUBE-(?:SRC|DST)-|kube-router-local-pods$)/.test(name);
}
