/**
 * Ensures that traffic across a bridge of this node passes the rules. Whether it does is a setting of the network
 * namespace, provided by the module br_netfilter (kernel, Documentation/networking/ip-sysctl.rst,
 * bridge-nf-call-iptables).
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { bridgesOf } from '../../../lib/netlink/interface.ts';
import { RouteSocket } from '../../../lib/netlink/route.ts';
import { messageOf } from '../../../lib/errors/errors.ts';

const settings = ['bridge-nf-call-iptables', 'bridge-nf-call-ip6tables'] as const;

export interface BridgeOptions {
  /** Directory of the settings. Default: that of the calling thread's network namespace. */
  readonly sysctls?: string;
  readonly bridges?: () => readonly string[];
}

/** Asks the kernel by netlink: /sys/class/net shows the network namespace in which /sys was mounted. */
function bridgesHere(): readonly string[] {
  using socket = new RouteSocket();
  return bridgesOf(socket);
}

/**
 * Makes bridged packets pass the rules.
 *
 * @returns why they do not; undefined if they do, or if there is no bridge.
 */
export function filterBridges({
  sysctls = '/proc/sys/net/bridge',
  bridges = bridgesHere,
}: BridgeOptions = {}): string | undefined {
  const names = bridges();
  if (names.length === 0) return undefined;
  const around = `traffic between pods on one bridge (${names.join(', ')}) bypasses all policies`;
  if (!existsSync(sysctls))
    return `${around}: the module br_netfilter is not loaded. Load it: modprobe br_netfilter`;
  for (const name of settings) {
    const path = join(sysctls, name);
    if (!existsSync(path) || readFileSync(path, 'utf8').trim() === '1') continue;
    try {
      writeFileSync(path, '1');
    } catch (error) {
      return `${around}: net.bridge.${name} is 0 and cannot be set (${messageOf(error)}). Set it: sysctl -w net.bridge.${name}=1`;
    }
  }
  return undefined;
}
