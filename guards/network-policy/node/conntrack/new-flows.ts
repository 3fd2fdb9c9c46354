/**
 * New connections: the kernel reports each one once its first packet has passed all rules, as events of
 * nf_conntrack, by ctnetlink (decision 0022).
 */
import { readFileSync } from 'node:fs';

import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { NetlinkReader } from '../../../../lib/netlink/reader.ts';
import { NETLINK_NETFILTER, NetlinkSocket } from '../../../../lib/netlink/socket.ts';
import { type Flow, NFGEN_BYTES, readFlow } from './flow.ts';

/** include/uapi/linux/netfilter/nfnetlink_compat.h and nfnetlink_conntrack.h. */
const NFNLGRP_CONNTRACK_NEW = 1;
const NEW = 0x100;
const GET_STATS = 0x105;

/** The kernel doubles this size, and an event takes about 1 KiB, so the queue holds some 4,000 connections. */
const RECEIVE_BYTES = 2 * 1024 * 1024;

/** Limits the load under a flood to a quarter of a core: the reader works for 4 ms at a time. */
const PAUSE_MS = 12;

const WHAT = 'cannot follow new connections';

export interface NewFlowsOptions {
  /** Called with each new connection. Its errors go to `onError`, and following continues. */
  readonly onFlow: (flow: Flow) => void;
  /** Called with the number of connections that the kernel had no room to report; the connections are not affected. */
  readonly onLost: (flows: number) => void;
  readonly onError: (error: unknown) => void;
  /** Size of the kernel's queue. Default: 2 MiB. */
  readonly receiveBytes?: number;
}

/**
 * Follows the connections of the network namespace that the calling thread had when it was opened. Does not keep
 * the process alive. Dispose it to stop.
 */
export class NewFlows implements Disposable {
  readonly #options: NewFlowsOptions;
  readonly #socket: NetlinkSocket;
  readonly #reader: NetlinkReader;
  #dropped = 0;

  /**
   * @throws {RampartError} `PRIVILEGE` without CAP_NET_ADMIN; `UNSUPPORTED` if events are switched off; `SystemCallError` if the kernel
   *   has no nf_conntrack_netlink, and before Linux 4.12.
   */
  constructor(options: NewFlowsOptions) {
    this.#options = options;
    throwIfSwitchedOff();
    throwIfMissing();
    this.#socket = new NetlinkSocket({
      protocol: NETLINK_NETFILTER,
      groups: [NFNLGRP_CONNTRACK_NEW],
      receiveBytes: options.receiveBytes ?? RECEIVE_BYTES,
      countsDrops: true,
    });
    this.#reader = new NetlinkReader({
      socket: this.#socket,
      begin: () => (this.#dropped = this.#socket.dropped),
      onMessage: (message) => this.#message(message),
      onRead: () => this.#countDrops(),
      pauseMs: PAUSE_MS,
      onError: options.onError,
    });
  }

  /** False after it was disposed, and after the socket itself has failed, which is reported to `onError`. */
  get isOpen(): boolean {
    return this.#reader.isOpen;
  }

  #message({ type, body }: { readonly type: number; readonly body: Buffer }): void {
    const flow = type === NEW ? readFlow(body)?.flow : undefined;
    if (flow !== undefined) this.#options.onFlow(flow);
  }

  #countDrops(): void {
    const dropped = this.#socket.dropped;
    // The kernel's counter has 32 bits and wraps around.
    const lost = (dropped - this.#dropped) >>> 0;
    this.#dropped = dropped;
    if (lost > 0) this.#options.onLost(lost);
  }

  [Symbol.dispose](): void {
    this.#reader[Symbol.dispose]();
  }
}

/** A kernel without nf_conntrack_netlink accepts the group, but never reports anything. */
function throwIfMissing(): void {
  using socket = new NetlinkSocket({ protocol: NETLINK_NETFILTER });
  socket.request(WHAT, { type: GET_STATS }, [Buffer.alloc(NFGEN_BYTES)]);
}

/**
 * @throws {RampartError} `UNSUPPORTED` if the network namespace of the calling thread has no events of
 * connections: the kernel then reports neither connections nor an error.
 */
export function throwIfSwitchedOff(): void {
  let value: string;
  try {
    value = readFileSync('/proc/sys/net/netfilter/nf_conntrack_events', 'utf8').trim();
  } catch {
    // nf_conntrack is loaded with the first rule that needs it. A kernel that does not have it is recognized by its answer to the request.
    return;
  }
  if (value !== '0') return;
  throw new RampartError(errorCodes.UNSUPPORTED, {
    what: WHAT,
    why: 'net.netfilter.nf_conntrack_events is 0',
    next: 'Set it: sysctl -w net.netfilter.nf_conntrack_events=1',
  });
}
