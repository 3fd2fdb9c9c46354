/**
 * `node bench/run.ts GUARD [PART...] [--json]`: benchmarks, as tables of ratios on stdout; progress goes to
 * stderr. Exit code 0 even if a target is missed: numbers are for reading, not for assertions; 2 if a program
 * is missing.
 */
import { cpus, loadavg, release } from 'node:os';
import { parseArgs } from 'node:util';

import { wantsColour } from '../lib/output/table.ts';
import { MissingPrograms } from './programs.ts';
import { type Part, type PartOptions, printReport, type Report } from './report.ts';

/** Loaded when asked for: a part may need what another one's machine lacks. */
const parts: Readonly<Record<string, Readonly<Record<string, () => Promise<Part>>>>> = {
  sensor: {
    hooks: async () => (await import('./sensor/hooks.ts')).hooks,
    drain: async () => (await import('./sensor/drain.ts')).drain,
    latency: async () => (await import('./sensor/latency.ts')).latency,
    rest: async () => (await import('./sensor/rest.ts')).rest,
  },
  apiserver: {
    creates: async () => (await import('./apiserver/creates.ts')).creates,
    lists: async () => (await import('./apiserver/lists.ts')).lists,
    watches: async () => (await import('./apiserver/watches.ts')).watches,
    reflector: async () => (await import('./apiserver/reflector.ts')).reflector,
  },
  standalone: {
    hour: async () => (await import('./standalone/hour.ts')).hour,
  },
  'file-access': {
    watched: async () => (await import('./file-access/watched.ts')).watched,
    'new-pod': async () => (await import('./file-access/new-pod.ts')).newPod,
    rest: async () => (await import('./file-access/rest.ts')).rest,
    alerts: async () => (await import('./file-access/alerts.ts')).alerts,
  },
  'bpf-programs': {
    chain: async () => (await import('./bpf-programs/chain.ts')).chain,
    attach: async () => (await import('./bpf-programs/attach.ts')).attach,
    applied: async () => (await import('./bpf-programs/applied.ts')).applied,
    rest: async () => (await import('./bpf-programs/rest.ts')).rest,
  },
  'file-integrity': {
    tree: async () => (await import('./file-integrity/scans.ts')).tree,
    flat: async () => (await import('./file-integrity/scans.ts')).flat,
    'one-file': async () => (await import('./file-integrity/growth.ts')).oneFile,
    memory: async () => (await import('./file-integrity/growth.ts')).memory,
  },
  'policy-audit': {
    cel: async () => (await import('./policy-audit/cel.ts')).cel,
    runtimes: async () => (await import('./policy-audit/runtimes.ts')).runtimesPart,
    scan: async () => (await import('./policy-audit/scan.ts')).scan,
    server: async () => (await import('./policy-audit/server.ts')).server,
  },
  'network-policy': {
    sync: async () => (await import('./network-policy/sync.ts')).sync,
    event: async () => (await import('./network-policy/event.ts')).event,
    packets: async () => (await import('./network-policy/packets.ts')).packets,
    cluster: async () => (await import('./network-policy/cluster.ts')).cluster,
    'flow-log': async () => (await import('./network-policy/flow-log.ts')).flowLog,
  },
  fleet: {
    fleet: async () => (await import('./fleet/fleet.ts')).fleet,
  },
};
const modes = ['auto', 'fentry', 'kprobe', 'raw_tracepoint'] as const;

const usage = `usage: ${Object.entries(parts)
  .map(([name, all]) => `node bench/run.ts ${name} [${Object.keys(all).join('|')}...] [options]`)
  .join('\n       ')}

  --json           the numbers as one JSON document
  --mode MODE      force a sensor mode: ${modes.join(', ')}
  --rounds NUMBER  repetitions (default 9)
  --nodes LIST     sizes of fleets (default 10,100,500)
  --kubeconfig FILE
                   a cluster for the fleet, in place of rampart apiserver
  --shrink NUMBER  divide the work by this, for a quick look (default 1)`;

interface Request {
  readonly wanted: readonly (readonly [string, () => Promise<Part>])[];
  readonly options: Omit<PartOptions, 'signal' | 'progress'>;
  readonly json: boolean;
}

function parse(): Request | undefined {
  let parsed;
  try {
    parsed = parseArgs({
      allowPositionals: true,
      options: {
        json: { type: 'boolean', default: false },
        mode: { type: 'string', default: 'auto' },
        rounds: { type: 'string', default: '9' },
        nodes: { type: 'string' },
        kubeconfig: { type: 'string' },
        shrink: { type: 'string', default: '1' },
      },
    });
  } catch {
    return undefined;
  }
  const [guard, ...names] = parsed.positionals;
  const known = Object.hasOwn(parts, guard ?? '') ? parts[guard ?? ''] : undefined;
  const mode = modes.find((name) => name === parsed.values.mode);
  const [rounds, shrink] = [Number(parsed.values.rounds), Number(parsed.values.shrink)];
  if (known === undefined || mode === undefined || !(rounds >= 1) || !(shrink >= 1)) return undefined;
  const wanted = Object.entries(known).filter(([name]) => names.length === 0 || names.includes(name));
  if (names.some((name) => !Object.hasOwn(known, name))) return undefined;
  const { kubeconfig, json } = parsed.values;
  const nodes = parsed.values.nodes?.split(',').map(Number);
  if (nodes?.some((count) => !Number.isSafeInteger(count) || count < 1)) return undefined;
  return { wanted, options: { mode, rounds, shrink, nodes, kubeconfig }, json };
}

/** The machine that the numbers depend on. */
function machine(): string {
  const [first] = cpus();
  const busy = (loadavg()[0] ?? 0).toFixed(1);
  return `${cpus().length} x ${first?.model.trim()}, Linux ${release()}, ${process.arch}, Node.js ${process.versions.node}; load average ${busy} at the start`;
}

async function main({ wanted, options, json }: Request): Promise<void> {
  const stop = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => stop.abort(new Error(`stopped by ${name}`)));
  }
  const progress = (text: string): void => void process.stderr.write(`${text}\n`);
  const on = machine();
  if (!json) console.log(`${on}\n`);
  const reports: (Report & { part: string })[] = [];
  for (const [name, load] of wanted) {
    const part = await load();
    const report = await part({ ...options, signal: stop.signal, progress });
    reports.push({ part: name, ...report });
    if (!json) console.log(printReport(report, wantsColour(process.stdout)));
  }
  if (json) console.log(JSON.stringify({ machine: on, reports }, undefined, 2));
}

const request = parse();
if (request === undefined) {
  process.stderr.write(`${usage}\n`);
  process.exitCode = 2;
} else {
  try {
    await main(request);
  } catch (error) {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = error instanceof MissingPrograms ? 2 : 1;
  }
}
