/** Runs `rampart integrity accept`. */
import { randomBytes } from 'node:crypto';

import { KubeClient } from '../../../lib/kube/client/client.ts';
import { isForbidden } from '../../../lib/kube/client/client-errors.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { renderTable } from '../../../lib/output/table.ts';
import { outcomeOf, visible } from '../accept/outcome.ts';
import { requestAnnotation } from '../results/node-requests.ts';
import { requestAnnotationPrefix } from '../results/node-result.ts';
import { nodeStatusName } from '../results/object-names.ts';
import { clusterAccess } from '../../../lib/cli/cluster.ts';
import { printDocument } from '../../../lib/cli/document.ts';
import { confirmed } from '../../../lib/cli/confirm.ts';
import { describeFailure } from '../../../lib/cli/failure.ts';
import { personOf } from '../../../lib/cli/person.ts';
import { say, stopSignal } from '../../../lib/cli/process.ts';
import { findIntegrity, type FoundIntegrity, type NodePlan, planAccept, statusesOf } from '../accept/plan.ts';
import type { AcceptOptions } from './command.ts';
import { refuseEmpty } from '../../../lib/cli/options.ts';
import { someOf } from '../../../lib/output/words.ts';
import { outputOptions } from '../../../lib/cli/output.ts';

const LOOK_MS = 500;
/** Limit of listed findings for each node. */
const MAX_LISTED = 50;
/** Limit of nodes named in a message. */
const MAX_NAMED = 5;

/**
 * @returns the exit code: 0 if everything was accepted, 1 if not everything, or not yet, 2 if no request was made;
 *   stderr says why.
 */
export async function runAccept(name: string, options: AcceptOptions): Promise<0 | 1 | 2> {
  const summary: AcceptSummary = { plans: [], asked: [], outcomes: new Map() };
  const exitCode = await accept(name, options, summary);
  if (options.output !== 'pretty' && summary.integrity !== undefined) {
    const { integrity, plans, asked, outcomes } = summary;
    printDocument(options.output, 'rampart.dev/integrity-accept/v1', {
      fileIntegrity: { namespace: integrity.namespace, name: integrity.name },
      dryRun: options.dryRun === true,
      nodes: plans.map((plan) => ({
        name: plan.nodeName,
        findings: plan.findings.map(({ path, change, attributes }) => ({ path, change, attributes })),
        omitted: plan.omitted,
        requested: asked.some((one) => one.plan === plan),
        outcome: outcomes.get(plan.nodeName) ?? null,
      })),
    });
  }
  return exitCode;
}

/** The report at the end, also after an error. */
interface AcceptSummary {
  integrity?: FoundIntegrity;
  plans: readonly NodePlan[];
  asked: readonly Asked[];
  /** Outcomes of the nodes that were asked, keyed by node. */
  readonly outcomes: Map<string, string>;
}

async function accept(name: string, options: AcceptOptions, summary: AcceptSummary): Promise<0 | 1 | 2> {
  const { signal } = stopSignal();
  const isPretty = options.output === 'pretty';
  try {
    const { namespace, path, node } = options;
    refuseEmpty({
      '--namespace': namespace,
      '--path': path,
      '--node': node.find((one) => one === ''),
      'the name': name,
    });
    using client = new KubeClient(clusterAccess(options));
    const integrity = await findIntegrity(client, name, namespace, signal);
    const statuses = await statusesOf(client, integrity, signal);
    const plans = planAccept(integrity, statuses, [...new Set(node)], path);
    const author = await personOf(client, options, signal);
    Object.assign(summary, { integrity, plans });
    if (isPretty) process.stdout.write(`${listOf(plans)}\n`);
    if (!(await isMeant(integrity, plans, options, signal))) return options.dryRun === true ? 0 : 2;
    const asked = await ask(client, integrity, plans, { author, options, signal });
    summary.asked = asked;
    const missed = plans.length - asked.length;
    if (asked.length === 0) return 2;
    say(`asked ${asked.map(({ plan }) => plan.nodeName).join(', ')} to accept them, as ${author}`);
    if (options.timeout === 0) return missed === 0 ? 0 : 1;
    const onOutcome = (nodeName: string, text: string): void => {
      summary.outcomes.set(nodeName, text);
      if (isPretty) process.stdout.write(`${nodeName}: ${text}\n`);
    };
    const isDone = await wait(client, integrity, asked, { timeoutMs: options.timeout, onOutcome, signal });
    return isDone && missed === 0 ? 0 : 1;
  } catch (error) {
    if (signal.aborted && summary.asked.length > 0) {
      say('stopped waiting; the agents will still carry out the request');
      return 1;
    }
    process.stderr.write(describeFailure(error).text);
    return summary.asked.length > 0 ? 1 : 2;
  }
}

/**
 * Prints the findings to accept, and asks the user for confirmation.
 *
 * @throws {RampartError} `INPUT` if all findings are selected without --all
 */
async function isMeant(
  { namespace, name }: FoundIntegrity,
  plans: readonly NodePlan[],
  { path, node, all, dryRun, yes }: AcceptOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const count = plans.reduce((sum, { findings, omitted }) => sum + findings.length + omitted, 0);
  const nodes = someOf(
    plans.map(({ nodeName }) => nodeName),
    MAX_NAMED,
  );
  // Findings that the status only counts may not match the path.
  const max = path !== undefined && plans.some(({ omitted }) => omitted > 0) ? 'up to ' : '';
  const what = `${max}${count} ${count === 1 ? 'finding' : 'findings'} of ${namespace}/${name} on ${nodes}`;
  if (dryRun) {
    say(`would accept ${what}`);
    return false;
  }
  if (path === undefined && node.length === 0 && all !== true) {
    throw new RampartError(errorCodes.INPUT, {
      what: `nothing was accepted`,
      why: `this would accept ${what}: everything that was found`,
      next: 'Narrow it with --path or --node, or use --all',
    });
  }
  if (yes || (await confirmed(`Accept ${what} into the baseline?`, signal)) !== false) return true;
  say('nothing was accepted');
  return false;
}

interface Asked {
  readonly plan: NodePlan;
  readonly id: string;
}

function listOf(plans: readonly NodePlan[]): string {
  const rows = plans.flatMap(({ nodeName, findings, omitted }) => {
    const counted = Math.max(0, findings.length - MAX_LISTED) + omitted;
    return [
      ...findings.slice(0, MAX_LISTED).map(({ path, change, attributes }) => ({
        cells: [nodeName, { text: change, style: styles[change] }, visible(path), attributes.join(', ')],
      })),
      ...(counted > 0 ? [{ cells: [nodeName, '', `and ${counted} more, if they still match`] }] : []),
    ];
  });
  return renderTable(rows, { head: ['NODE', 'CHANGE', 'PATH', 'ATTRIBUTES'], ...outputOptions(100) });
}

const styles = { added: 'green', removed: 'red', changed: 'yellow' } as const;

/** Sends requests to the nodes, and returns those that succeeded; reports why others failed. */
async function ask(
  client: KubeClient,
  { namespace, name }: FoundIntegrity,
  plans: readonly NodePlan[],
  { author, options, signal }: { author: string; options: AcceptOptions; signal: AbortSignal },
): Promise<readonly Asked[]> {
  const asked: Asked[] = [];
  for (const plan of plans) {
    const id = randomBytes(8).toString('hex');
    const { path = '', reason = '' } = options;
    const { seenUntilMs } = plan;
    const request = {
      ...{ kind: 'accept' as const, id, path, author, reason },
      ...(seenUntilMs !== undefined && { seenUntilMs }),
    };
    const body = { metadata: { annotations: requestAnnotation(request) } };
    const target = { namespace, name: nodeStatusName(name, plan.nodeName) };
    try {
      await client.patch(plan.types.nodeStatuses, target, { type: 'merge', body }, { signal });
      asked.push({ plan, id });
    } catch (error) {
      process.stderr.write(describeFailure(error).text);
      // The rights are the same for all nodes.
      if (isForbidden(error) || signal.aborted) break;
    }
  }
  return asked;
}

interface WaitOptions {
  readonly timeoutMs: number;
  readonly onOutcome: (nodeName: string, text: string) => void;
  readonly signal: AbortSignal;
}

/** Waits until all requests are removed: the operator removes a request when the agent has reported it as done. */
async function wait(
  client: KubeClient,
  integrity: FoundIntegrity,
  asked: readonly Asked[],
  { timeoutMs, onOutcome, signal }: WaitOptions,
): Promise<boolean> {
  const endMs = performance.now() + timeoutMs;
  const waiting = new Set(asked);
  let allTaken = true;
  while (waiting.size > 0) {
    const statuses = await statusesOf(client, integrity, signal);
    for (const one of waiting) {
      const found = statuses.find(
        ({ types, status }) => types === one.plan.types && status.nodeName === one.plan.nodeName,
      );
      if (found?.status.metadata.annotations?.[`${requestAnnotationPrefix}${one.id}`] !== undefined) continue;
      waiting.delete(one);
      const { text, isTaken } = outcomeOf(one.plan, found?.status);
      allTaken &&= isTaken;
      onOutcome(one.plan.nodeName, text);
    }
    if (waiting.size === 0) return allTaken;
    if (performance.now() >= endMs) break;
    await sleep(systemClock, LOOK_MS, signal);
  }
  for (const { plan } of waiting) {
    const waitedS = Math.round(timeoutMs / 1000);
    onOutcome(plan.nodeName, `not accepted after ${waitedS} s; its agent will still carry out the request`);
  }
  return false;
}
