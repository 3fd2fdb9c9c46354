/** A network of its own, a bpffs and a state directory for tests of the program host. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Descriptor } from '../../../lib/ebpf/bpf-call.ts';
import { errno, libc, libbpf } from '../../../lib/ebpf/ffi.ts';
import { type MapInfo, mapInfo, programInfo } from './info.ts';
import { openPin } from './pins/pin.ts';
import { findInterface } from '../../../lib/netlink/interface.ts';
import { RouteSocket } from '../../../lib/netlink/route.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import type { Attach, DesiredProgram, Failure, Outcome, ProgramHost } from './desired.ts';
import { openProgramHost } from './host.ts';
import { keyOf } from './records.ts';
import type { TenantRules } from './tenant/rules.ts';

const CLONE_NEWNET = 0x40000000;
const AF_PACKET = 17;
const SOCK_RAW_CLOEXEC = 3 | 0x80000;
/** ETH_P_802_EX1, which the programs of the tests count. */
const COUNTED = 0x88b5;
/**
 * The error of veth when the queue of the other end is full: the frame is gone, and no program there has seen
 * it.
 */
const ENOBUFS = 105;
/** In a row, with a millisecond after each. */
const MAX_REFUSED = 10_000;
const nobody = new Int32Array(new SharedArrayBuffer(4));
export const NAME = 'rampart-test';

/** Why the tests cannot run here. */
export function obstacle(): string | undefined {
  if (process.getuid?.() !== 0) return 'needs root';
  return spawnSync('ip', ['-V']).status === 0 ? undefined : 'ip is not installed';
}

/** The test programs of `fixtures/NAME.bpf.o`. */
export function bytecode(name: string): Uint8Array {
  return readFileSync(join(import.meta.dirname, 'fixtures', `${name}.bpf.o`));
}

/** The network namespace that a process is in. */
export function networkOf({ pid }: { readonly pid?: number | undefined }): string {
  return readlinkSync(`/proc/${pid}/ns/net`);
}

/** Moves this process, and those it starts from now on, into a network namespace of its own. */
export function ownNetwork(): void {
  if (libc.unshare(CLONE_NEWNET) < 0) throw new Error(`unshare: errno ${errno()}`);
  ip('link set lo up');
}

export function ip(...lines: readonly string[]): void {
  execFileSync('ip', ['-batch', '-'], { input: `${lines.join('\n')}\n` });
}

/** Two interfaces with a cable between them; IPv6 is off, so that nothing but what is sent goes over it. */
export function cable(name: string, other: string): void {
  ip(`link add ${name} type veth peer name ${other}`);
  for (const one of [name, other]) execFileSync('sysctl', ['-qw', `net.ipv6.conf.${one}.disable_ipv6=1`]);
  ip(`link set ${name} up`, `link set ${other} up`);
}

/** Sends frames out of an interface, as fast as the other end of the cable takes them. */
export function send(interfaceName: string, count: number): void {
  using route = new RouteSocket();
  const index = findInterface(route, interfaceName)?.index;
  if (index === undefined) throw new Error(`no interface ${interfaceName}`);
  const socket = libc.socket(AF_PACKET, SOCK_RAW_CLOEXEC, 0);
  if (socket < 0) throw new Error(`socket: errno ${errno()}`);
  try {
    // struct sockaddr_ll
    const address = Buffer.alloc(20);
    address.writeUInt16LE(AF_PACKET, 0);
    address.writeInt32LE(index, 4);
    if (libc.bind(socket, address, address.length) < 0) throw new Error(`bind: errno ${errno()}`);
    const frame = Buffer.alloc(64, 0xff);
    frame.writeUInt16BE(COUNTED, 12);
    for (let sent = 0, refused = 0; sent < count;) {
      if (libc.write(socket, frame, frame.length) >= 0) [sent, refused] = [sent + 1, 0];
      else if (errno() !== ENOBUFS || ++refused > MAX_REFUSED) throw new Error(`write: errno ${errno()}`);
      // The reader of that queue may need this processor.
      else Atomics.wait(nobody, 0, 0, 1);
    }
  } finally {
    libc.close(socket);
  }
}

/** Sends from another process. */
export function sending(interfaceName: string, count: number): ChildProcess {
  const program = `import { send } from ${JSON.stringify(import.meta.filename)}; send(${JSON.stringify(interfaceName)}, ${count});`;
  return spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'inherit' });
}

export class Lab implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'rampart-bpf-programs-'));
  readonly bpffs = join(this.directory, 'bpffs');
  readonly state = join(this.directory, 'state');
  #host: ProgramHost | undefined;

  constructor() {
    // As on a node: records are on tmpfs, and no test waits for a disk.
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', this.directory]);
    mkdirSync(this.bpffs);
    execFileSync('mount', ['-t', 'bpf', 'bpf', this.bpffs]);
  }

  async host(): Promise<ProgramHost> {
    this.#host ??= await this.another();
    return this.#host;
  }

  /** As a process that was started later has it. */
  async restarted(tenants?: TenantRules): Promise<ProgramHost> {
    await this.#host?.[Symbol.asyncDispose]();
    this.#host = await this.another('/', tenants);
    return this.#host;
  }

  another(hostRoot = '/', tenants?: TenantRules, onTargetChange?: () => void): Promise<ProgramHost> {
    return openProgramHost({
      bpffs: this.bpffs,
      name: NAME,
      stateDirectory: this.state,
      hostRoot,
      tenants,
      onTargetChange,
      logger: createLogger({ level: 'silent' }),
    });
  }

  /** The first u64 of a map of a program, by its pin. */
  counted(id: string, map = 'packets'): number {
    using pinned = this.#map(id, map);
    const value = new Uint8Array(8);
    if (libbpf().mapLookup(pinned.fd, new Uint8Array(4), value) !== 0) throw new Error(`lookup: ${errno()}`);
    return Number(new DataView(value.buffer).getBigUint64(0, true));
  }

  /** Sets it to 0. */
  clear(id: string, map = 'packets'): void {
    using pinned = this.#map(id, map);
    if (libbpf().mapUpdate(pinned.fd, new Uint8Array(4), new Uint8Array(8), 0) !== 0)
      throw new Error(`update: ${errno()}`);
  }

  /** The kernel's facts about a map of a program. */
  mapInfo(id: string, map: string): MapInfo {
    using pinned = this.#map(id, map);
    return mapInfo(pinned.fd);
  }

  #map(id: string, map: string): Descriptor {
    const [generation = ''] = readdirSync(this.programPins(id));
    const pinned = openPin(join(this.programPins(id), generation, 'maps', map));
    if (pinned === undefined) throw new Error(`${id} has no map ${map}`);
    return pinned;
  }

  /** Ids of the composed programs, by their pins. */
  composed(): readonly number[] {
    const directory = join(this.bpffs, NAME, 'chains');
    return readdirSync(directory).map((key) => {
      using program = openPin(join(directory, key, 'program'));
      return program === undefined ? 0 : programInfo(program.fd).id;
    });
  }

  /** Below the directories of the chains. */
  chainPins(): readonly string[] {
    const directory = join(this.bpffs, NAME, 'chains');
    return readdirSync(directory).flatMap((key) => readdirSync(join(directory, key)));
  }

  programPins(id: string): string {
    return join(this.bpffs, NAME, 'programs', keyOf(id));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#host?.remove();
      await this.#host?.[Symbol.asyncDispose]();
    } finally {
      execFileSync('umount', [this.bpffs, this.directory]);
      rmSync(this.directory, { recursive: true });
    }
  }
}

/** XDP_PASS and the dispatcher's own code, as the resource has it by default. */
export const PROCEED_XDP = (1 << 2) | (1 << 31);
/** TC_ACT_PIPE and the dispatcher's own code. */
export const PROCEED_TC = (1 << 4) | (1 << 31);

export function xdp(interfaceName: string, priority = 50, proceedOn = PROCEED_XDP): Attach {
  return {
    type: 'xdp',
    hook: { interface: interfaceName, container: undefined },
    order: { priority, proceedOn },
  };
}

export function tc(
  interfaceName: string,
  direction: 'egress' | 'ingress',
  priority = 50,
  proceedOn = PROCEED_TC,
): Attach {
  return {
    type: 'tc',
    direction,
    hook: { interface: interfaceName, container: undefined },
    order: { priority, proceedOn },
  };
}

export function tcx(interfaceName: string, direction: 'egress' | 'ingress', priority: number): Attach {
  return { type: 'tcx', direction, hook: { interface: interfaceName, container: undefined }, priority };
}

/** A program of `fixtures/count.bpf.c`, unless something else is said. */
export function desired(id: string, attach: Attach, rest: Partial<DesiredProgram> = {}): DesiredProgram {
  return {
    id,
    owner: `XdpProgram/${id}`,
    name: id,
    namespace: undefined,
    source: 'registry.example/count:v1',
    digest: 'sha256:count',
    bytecode: () => Promise.resolve(bytecode('count')),
    functionName: `${attach.type === 'xdp' ? 'xdp' : 'tc'}_count`,
    globals: {},
    mapGroup: undefined,
    allOrNothing: false,
    mapOwner: undefined,
    blocked: undefined,
    attach,
    ...rest,
  };
}

export function u32(value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

export function u64(value: number): Uint8Array {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

/**
 * The failure of a program that does not run.
 *
 * @throws {Error} when it runs, or for another reason
 */
export function failed(
  outcomes: ReadonlyMap<string, Outcome>,
  id: string,
  reason: Failure['reason'],
): string {
  const outcome = outcomes.get(id);
  if (outcome?.state === 'failed' && outcome.reason === reason) return outcome.message;
  throw new Error(`${id} should have failed for ${reason}: ${JSON.stringify(outcome)}`);
}

/**
 * The failure of a program whose previous version runs.
 *
 * @throws {Error} in any other state, or for another reason
 */
export function kept(
  outcomes: ReadonlyMap<string, Outcome>,
  id: string,
  reason: Failure['reason'],
  programId?: number,
): string {
  const outcome = outcomes.get(id);
  const isKept = outcome?.state === 'kept' && outcome.failure.reason === reason;
  if (isKept && (programId ?? outcome.programId) === outcome.programId) return outcome.failure.message;
  throw new Error(`${id} should be kept for ${reason}: ${JSON.stringify(outcome)}`);
}

/** The id of a program that runs. @throws {Error} with what the outcome says, when it does not */
export function loaded(outcomes: ReadonlyMap<string, Outcome>, id: string): number {
  const outcome = outcomes.get(id);
  if (outcome?.state === 'loaded') return outcome.programId;
  throw new Error(`${id} is not loaded: ${JSON.stringify(outcome)}`);
}
