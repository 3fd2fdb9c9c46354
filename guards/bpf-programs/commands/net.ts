/** `rampart bpf net`. */
import { statSync } from 'node:fs';
import { join } from 'node:path';

import { openCri } from '../../../lib/cri/cri.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { printable } from '../../../lib/output/printable.ts';
import { type InterfaceProgram, interfacePrograms } from '../kernel/running/interface-programs.ts';
import { ProgramFailure } from '../kernel/failure.ts';
import { NetworkPlace } from '../kernel/place/network-place.ts';
import type { ContainerPlace } from '../kernel/desired.ts';
import type { NetOptions } from './command.ts';
import { isPrinted, place, print } from './print.ts';

/** @returns the exit code: 1 if nothing runs there. */
export async function runNet(interfaceName: string | undefined, options: NetOptions): Promise<number> {
  const reading = place(options);
  using network = await networkOf(options);
  const programs = interfacePrograms(reading, network, interfaceName);
  if (isPrinted(options, 'rampart.dev/bpf-net/v1', { programs })) return programs.length === 0 ? 1 : 0;
  if (programs.length === 0)
    process.stdout.write(`No eBPF program runs on ${printable(interfaceName ?? 'any interface')}.\n`);
  else {
    print(
      ['INTERFACE', 'HOOK', 'ID', 'NAME', 'ATTACHED BY', 'REQUESTED BY'],
      programs.map((program) => ({
        cells: [
          ...[program.interface, hookText(program), String(program.programId), program.name || '-'],
          program.linkId === undefined ? 'netlink' : `link ${program.linkId}`,
          program.owners.join(' ') || "(not Rampart's)",
        ].map(printable),
      })),
      options,
    );
  }
  return programs.length === 0 ? 1 : 0;
}

function hookText({ hook, direction, mode, filter }: InterfaceProgram): string {
  const parts = [hook, direction ?? mode ?? ''];
  if (filter !== undefined) {
    const { priority, handle, chain, block } = filter;
    parts.push(`prio ${priority} handle 0x${handle.toString(16)}`);
    if (chain !== 0) parts.push(`chain ${chain}`);
    if (block !== undefined) parts.push(`block ${block}`);
  }
  return parts.filter((part) => part !== '').join(' ');
}

/** The network namespace to show; the caller disposes of it. @throws {RampartError} `NOT_FOUND`, and errors of the container runtime. */
async function networkOf({ netns, pod, criSocket }: NetOptions): Promise<NetworkPlace> {
  if (netns !== undefined) {
    const path = netns.includes('/') ? netns : join('/run/netns', netns);
    if (statSync(path, { throwIfNoEntry: false }) === undefined)
      throw notFound(`there is no network namespace ${netns}`, 'ip netns list shows those with a name');
    return NetworkPlace.at(path);
  }
  if (pod === undefined) return NetworkPlace.own();
  try {
    return NetworkPlace.of({ container: await containerOf(pod, criSocket) });
  } catch (error) {
    // The container has just ended.
    if (!(error instanceof ProgramFailure)) throw error;
    throw notFound(`pod ${pod} cannot be entered`, error.message);
  }
}

/** One of a pod's containers: all share its network. */
async function containerOf(wanted: string, socketPath: string | undefined): Promise<ContainerPlace> {
  const [namespace, name, ...more] = wanted.split('/');
  if (name === undefined || more.length > 0) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${wanted} does not name a pod`,
      next: 'Write it as NAMESPACE/NAME',
    });
  }
  using cri = openCri({ socketPath });
  const pods = new Set(
    (await cri.pods()).filter((one) => one.namespace === namespace && one.name === name).map(({ id }) => id),
  );
  for (const { id, podId, state } of await cri.containers()) {
    const pid = pods.has(podId) && state === 'running' ? await cri.containerPid(id) : undefined;
    if (pid !== undefined) return { pid, containerId: id, cgroupPath: undefined };
  }
  throw notFound(
    `no container of pod ${wanted} runs on this machine`,
    'kubectl get pod -o wide shows its node',
  );
}

function notFound(what: string, next: string): RampartError {
  return new RampartError(errorCodes.NOT_FOUND, { what, next });
}
