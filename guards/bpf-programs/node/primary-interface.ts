/** The interface of the default route of this process' network namespace. */
import { readFileSync } from 'node:fs';

/** `struct rtentry`: the route is usable, and goes through a gateway or not (include/uapi/linux/route.h). */
const RTF_UP = 0x1;
const RTF_REJECT = 0x200;

/** Of several, the one with the lowest metric; IPv4 before IPv6. Undefined where there is none. */
export function primaryInterface(): string | undefined {
  return ipv4Default(textOf('/proc/net/route')) ?? ipv6Default(textOf('/proc/net/ipv6_route'));
}

/** `/proc/net/route`: interface, destination, gateway, flags, three counters, metric, mask. */
function ipv4Default(text: string): string | undefined {
  const routes = text
    .split('\n')
    .slice(1)
    .map((line) => line.split(/\s+/));
  return lowest(
    routes.flatMap(([name = '', destination, , flags = '', , , metric = '', mask]) =>
      destination === '00000000' && mask === '00000000' && isUsable(flags)
        ? [{ name, metric: Number(metric) }]
        : [],
    ),
  );
}

/** `/proc/net/ipv6_route`: destination, its length, source, its length, next hop, metric, two counters, flags, interface. */
function ipv6Default(text: string): string | undefined {
  const routes = text.split('\n').map((line) => line.trim().split(/\s+/));
  return lowest(
    routes.flatMap(([destination = '', length, , , , metric = '', , , flags = '', name = '']) =>
      /^0{32}$/.test(destination) && length === '00' && isUsable(flags) && name !== 'lo'
        ? [{ name, metric: Number.parseInt(metric, 16) }]
        : [],
    ),
  );
}

function isUsable(flags: string): boolean {
  const bits = Number.parseInt(flags, 16);
  return (bits & RTF_UP) !== 0 && (bits & RTF_REJECT) === 0;
}

function lowest(routes: readonly { readonly name: string; readonly metric: number }[]): string | undefined {
  return routes.toSorted((a, b) => a.metric - b.metric)[0]?.name;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // No IPv6 in this kernel, for one.
    return '';
  }
}
