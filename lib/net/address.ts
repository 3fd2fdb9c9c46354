/** An address to serve on, as written on a command line. */

export interface Address {
  /** A name or an IP address, IPv6 without its brackets. */
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
}

/**
 * Reads `host:port` (`[::1]:9090` for IPv6); `undefined` for anything else, a bare `:9090` too, as it means loopback
 * to some and every interface to others.
 *
 * @param defaultHost if given, a port alone is enough.
 */
export function parseAddress(address: string | number, defaultHost?: string): Address | undefined {
  const match = /^(?:(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]]+)):)?(\d{1,5})$/.exec(String(address));
  const host = match?.[1] ?? match?.[2] ?? defaultHost;
  const port = Number(match?.[3]);
  return match === null || host === undefined || port > 65_535 ? undefined : { host, port };
}
