/** Options of `rampart network`; the implementation is loaded on demand. */
import { Command } from 'commander';

import type { Guard } from '../../../guard/guard.ts';
import type { LineKind } from '../../../guard/line-kind.ts';
import { addSources, type AlertsOptions, originNote } from '../../../guard/alerts/options.ts';
import { addApiOptions, addNamespaceOption } from '../../../lib/cli/cluster-options.ts';
import { addHelp } from '../../../lib/cli/help.ts';
import { addOutput, type PrettyFormat, prettyFormats } from '../../../lib/cli/output-option.ts';
import { append } from '../../../lib/cli/options.ts';

export interface ExplainOptions {
  readonly from: string;
  readonly to: string;
  readonly port: string;
  readonly namespace?: string;
  readonly output: PrettyFormat;
  readonly kernel?: true;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly data?: string;
}

export interface CleanupOptions {
  readonly output: PrettyFormat;
}

export interface TakeoverOptions extends CleanupOptions {
  readonly dryRun?: true;
}

type LinesOptions = Omit<AlertsOptions, 'path' | 'tail'>;

function explainCommand(): Command {
  const command = new Command('explain')
    .summary('explain whether a connection is allowed, and by which policy')
    .description(
      'Reads policies, pods and namespaces from the API and shows, for both ends, which policy, rule, peer and port decide on a ' +
        'new connection, or which rule came closest to allowing it. Changes nothing.',
    )
    .requiredOption('--from <end>', 'the source: a pod as NAMESPACE/NAME, or an address')
    .requiredOption(
      '--to <end>',
      'the destination: a pod, an address, or a Service as svc/NAMESPACE/NAME, svc/NAME or NAME.NAMESPACE.svc',
    )
    .requiredOption(
      '--port <port>',
      'the destination port: 80, 53/UDP, the name of a port of the pod or Service, or ICMP for a protocol without ports',
    )
    .option('--kernel', "also trace the packet through the rules in this machine's kernel; requires root")
    .action(async (options: ExplainOptions) => {
      const { runExplain } = await import('./explain.ts');
      process.exitCode = await runExplain(options);
    });
  addNamespaceOption(addApiOptions(command), 'the namespace of svc/NAME; default: default');
  addOutput(command, prettyFormats, {
    schemas: ['rampart.dev/network-explain/v1', 'rampart.dev/network-explain-service/v1'],
    formerNames: { text: 'pretty' },
  });
  return addHelp(command, {
    notes: [
      "With --kernel, the command reads Rampart's nftables, iptables and ipset rules in its own network namespace and traces the first packet of a connection through them. It does not check an end that is a pod on another node.",
      'The address of a Service and a NodePort of a node are recognized. Each endpoint that is ready is explained. A connection that passes because of monitor mode counts as allowed, and the output says that it would be refused.',
    ],
    examples: [
      'rampart network explain --from shop/frontend --to shop/db --port 5432',
      'rampart network explain --from 192.0.2.7 --to shop/web-0 --port 53/UDP -o json',
      'rampart network explain --from shop/frontend --to svc/shop/db --port 5432',
      'rampart network explain --from shop/api --to shop/db --port 5432 --kernel',
    ],
    exitCodes: {
      0: 'allowed',
      1: 'refused',
      2: 'cannot tell: bad input, no response from the API, or a kernel that disagrees, knows neither end, or cannot be read',
      3: 'allowed to some endpoints of a Service',
    },
  });
}

function dropsCommand(guard: Guard): Command {
  const command = new Command('drops')
    .summary('show refused connections, and watch for new ones')
    .description(
      'Shows refused packets as reported by the agents, and those that would be refused without monitor mode: at most ten a minute per pod and ' +
        'direction; all are counted in rampart_network_policy_refused_packets_total and ..._would_refuse_packets_total. `rampart alerts` shows them with all other alerts.',
    )
    .option(
      '--policy <[ns/]name>',
      'only packets that this policy came closest to allowing; repeatable',
      append,
      [],
    )
    .option('--pod <[ns/]name>', 'only packets refused by the policies of this pod; repeatable', append, []);
  linesCommand(command, guard, async () => (await import('../refusal-line.ts')).refusalLines);
  return addHelp(command, {
    notes: [originNote],
    examples: ['rampart network drops -f', "rampart network drops --since 1h --pod 'shop/*' -o json"],
    exitCodes: { 0: 'done, or stopped by Ctrl-C or SIGTERM' },
  });
}

function flowsCommand(guard: Guard): Command {
  const command = new Command('flows')
    .summary('show allowed connections, and watch for new ones')
    .description(
      'Shows new connections of pods as reported by agents with --network-flow-log: at most as many a second as the option says; the others are ' +
        'counted in rampart_network_policy_flows_not_logged_total. `rampart alerts` shows them with all other alerts.',
    )
    .option('--policy <[ns/]name>', 'only connections that this policy allows; repeatable', append, [])
    .option('--pod <[ns/]name>', 'only connections to or from this pod; repeatable', append, []);
  linesCommand(command, guard, async () => (await import('../flow-line.ts')).flowLines);
  return addHelp(command, {
    notes: [originNote],
    examples: ['rampart network flows -f', 'rampart network flows --pod shop/db -o json'],
    exitCodes: { 0: 'done, or stopped by Ctrl-C or SIGTERM' },
  });
}

/** Adds options to a command that shows lines of one kind. */
function linesCommand(command: Command, guard: Guard, kind: () => Promise<LineKind>): void {
  command
    .option('-f, --follow', 'keep printing new ones')
    .option(
      '--since <time>',
      'only those since then: an age (90s, 10m, 2h, 1d) or a time (2026-11-21T10:00:00Z)',
    );
  addSources(command).action(async (options: LinesOptions) => {
    const { runAlerts } = await import('../../../guard/alerts/run.ts');
    const lines = async (): Promise<readonly LineKind[]> => [await kind()];
    await runAlerts([{ ...guard, lines }], { ...options, path: [] });
  });
  addOutput(command, prettyFormats, { events: true });
}

function cleanupCommand(): Command {
  const command = new Command('cleanup')
    .summary('remove all network-policy rules from this node')
    .description(
      'Removes and lists what Rampart added to the network of this machine for NetworkPolicies, and nothing else. ' +
        'After that, no connection is refused; a running agent restores the rules within a minute. Requires root.',
    )
    .action(async (options: CleanupOptions) => {
      const { runCleanup } = await import('./cleanup.ts');
      process.exitCode = await runCleanup(options);
    });
  addOutput(command, prettyFormats, { schemas: ['rampart.dev/network-cleanup/v1'] });
  return addHelp(command, {
    examples: ['rampart network cleanup', 'rampart network cleanup -o json'],
    exitCodes: { 0: 'all removed', 1: 'something could not be removed' },
  });
}

function takeoverCommand(): Command {
  const command = new Command('takeover')
    .summary('remove the rules that kube-router has left on this node')
    .description(
      "Removes and lists kube-router's rules for NetworkPolicies: its iptables chains and ipset sets, also those of the version in k3s, and the " +
        'tables of its nftables backend. They go on refusing packets after kube-router has ended, and while they are there, the iptables ' +
        'backend of Rampart cannot work. What belongs to its Service proxy and its routes stays. Requires root.',
    )
    .option('--dry-run', 'only list what would be removed')
    .action(async (options: TakeoverOptions) => {
      const { runTakeover } = await import('./takeover.ts');
      await runTakeover(options);
    });
  addOutput(command, prettyFormats, { schemas: ['rampart.dev/network-takeover/v1'] });
  return addHelp(command, {
    notes: [
      'Stop kube-router first, or it restores its rules. From then on, only the rules of Rampart apply: `rampart status` shows whether they are in the kernel.',
    ],
    examples: ['rampart network takeover --dry-run', 'rampart network takeover -o json'],
    exitCodes: { 0: 'all removed, or nothing to remove' },
  });
}

export function networkCommand(guard: Guard): Command {
  const command = new Command('network')
    .summary('explain, show allowed and refused connections; clean up')
    .description(
      'Explains why a connection is allowed or refused, shows refused and allowed connections, and removes rules: its own, or those that kube-router has left.',
    )
    .addCommand(explainCommand())
    .addCommand(dropsCommand(guard))
    .addCommand(flowsCommand(guard))
    .addCommand(cleanupCommand())
    .addCommand(takeoverCommand());
  return addHelp(command, {
    examples: [
      'rampart network explain --from shop/frontend --to shop/db --port 5432',
      'rampart network drops -f',
    ],
  });
}
