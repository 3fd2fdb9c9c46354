/** Runs `rampart network explain`. */
import { networkInterfaces } from 'node:os';

import { KubeClient } from '../../../lib/kube/client/client.ts';
import { printable } from '../../../lib/output/printable.ts';
import { paint, wrapText, type RenderOptions } from '../../../lib/output/table.ts';
import { type ExplainedEnd, type Explanation, explain } from '../explain/explanation.ts';
import { compareWithKernel, type KernelCheck } from '../explain/kernel-check.ts';
import { checkEnd, parsePort } from '../explain/question.ts';
import { parseAddress } from '../engine/addresses.ts';
import { KubeError } from '../../../lib/kube/client/client-errors.ts';
import { readCluster, readServices } from '../explain/read-cluster.ts';
import { readKernel } from '../explain/read-kernel.ts';
import { parseServiceName, type Services, type ServiceTarget, serviceTarget } from '../explain/service.ts';
import { KeptNamespace } from '../dataplane/namespace.ts';
import { readOtherRules } from '../other-rules/other-rules.ts';
import { clusterAccess } from '../../../lib/cli/cluster.ts';
import { documentText } from '../../../lib/cli/document.ts';
import { describeFailure } from '../../../lib/cli/failure.ts';
import { stopSignal } from '../../../lib/cli/process.ts';
import type { ExplainOptions } from './command.ts';
import { outputOptions } from '../../../lib/cli/output.ts';

const INDENT = '    ';

/** Exit code for a Service with both allowed and refused endpoints. */
const MIXED = 3;

/** @returns the exit code: 0 allowed, 1 refused, 3 allowed to some endpoints of a Service, 2 unknown, with the reason on stderr. */
export async function runExplain(options: ExplainOptions): Promise<0 | 1 | 2 | 3> {
  try {
    const { signal } = stopSignal();
    const { service, explanations } = await ask(options, signal);
    const kernel = options.kernel === true ? await openKernel(signal) : undefined;
    const answers = explanations.map((explanation) => ({ explanation, kernel: kernel?.(explanation) }));
    const { stdout } = process;
    if (options.output !== 'pretty') stdout.write(documentText(options.output, objectOf(answers, service)));
    else {
      const text = outputOptions(80, { max: 120 });
      if (service !== undefined) stdout.write(serviceLine(service, explanations, text));
      stdout.write(answers.map((one) => render(one.explanation, one.kernel, text)).join('\n'));
    }
    return exitCodeOf(answers);
  } catch (error) {
    // The exit code is 2 also if the API is unavailable: scripts must be able to distinguish that from a refusal.
    process.stderr.write(describeFailure(error).text);
    return 2;
  }
}

interface Answer {
  readonly explanation: Explanation;
  readonly kernel: KernelCheck | undefined;
}

/** The kernel of this node may not know some endpoints of a Service, if they are on other nodes: one that agrees is enough. */
function exitCodeOf(answers: readonly Answer[]): 0 | 1 | 2 | 3 {
  const checks = answers.flatMap(({ kernel }) => kernel?.result ?? []);
  if (checks.includes('differs')) return 2;
  if (checks.length > 0 && !checks.includes('agrees')) return 2;
  const allowed = answers.filter(({ explanation }) => explanation.allowed).length;
  return allowed === answers.length ? 0 : allowed === 0 ? 1 : MIXED;
}

type Service = Pick<ServiceTarget, 'service' | 'port'>;

function objectOf(answers: readonly Answer[], service: Service | undefined): object {
  const all = answers.map(({ explanation, kernel }) => ({ ...explanation, ...(kernel && { kernel }) }));
  if (service === undefined) return { schema: 'rampart.dev/network-explain/v1', ...all[0] };
  return { schema: 'rampart.dev/network-explain-service/v1', ...service, endpoints: all };
}

function serviceLine(
  { service, port }: Service,
  explanations: readonly Explanation[],
  { colour }: RenderOptions,
): string {
  const allowed = explanations.filter((one) => one.allowed).length;
  const monitored = explanations.filter((one) => one.wouldRefuse).length;
  const all = explanations.length;
  const verdict =
    allowed === all
      ? paint('green', `allowed to ${all === 1 ? 'its endpoint' : `all ${all} endpoints`}`, colour)
      : allowed === 0
        ? paint('red', `refused to ${all === 1 ? 'its endpoint' : `all ${all} endpoints`}`, colour)
        : paint('yellow', `allowed to ${allowed} of ${all} endpoints`, colour);
  const without = monitored === 0 ? '' : `; ${monitored} would be refused without monitor mode`;
  return `Service ${printable(service)} ${port}: ${verdict}${paint('yellow', without, colour)}\n\n`;
}

interface Asked {
  readonly service: Service | undefined;
  /** One explanation; for a Service, one for each endpoint. */
  readonly explanations: readonly Explanation[];
}

async function ask(options: ExplainOptions, signal: AbortSignal): Promise<Asked> {
  const question = {
    from: checkEnd('--from', options.from),
    to: checkEnd('--to', options.to),
    ...parsePort(options.port),
  };
  using client = new KubeClient(clusterAccess(options));
  const namespace = options.namespace ?? 'default';
  const isName = parseServiceName(question.to, namespace) !== undefined;
  const [cluster, services] = await Promise.all([
    readCluster(client, signal),
    isName || parseAddress(question.to) !== undefined ? askServices(client, isName, signal) : undefined,
  ]);
  const target = services && serviceTarget(services, cluster.pods, question, namespace);
  if (target === undefined) return { service: undefined, explanations: [explain(cluster, question)] };
  const { service, port, questions } = target;
  return { service: { service, port }, explanations: questions.map((one) => explain(cluster, one)) };
}

/** If Services may not be read, a question about an address is answered without them; one about a Service's name is not. */
async function askServices(
  client: KubeClient,
  isName: boolean,
  signal: AbortSignal,
): Promise<Services | undefined> {
  try {
    return await readServices(client, signal);
  } catch (error) {
    if (isName || !(error instanceof KubeError)) throw error;
    process.stderr.write(`rampart: whether the destination is a Service is unknown: ${error.message}\n`);
    return undefined;
  }
}

async function openKernel(signal: AbortSignal): Promise<(explanation: Explanation) => KernelCheck> {
  using namespace = new KeptNamespace();
  const [rulesets, others] = [await readKernel(signal), await readOtherRules(namespace, signal)];
  const own = new Set(
    Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address)),
  );
  return (explanation) => compareWithKernel(explanation, rulesets, others, (address) => own.has(address));
}

export function render(
  explanation: Explanation,
  kernel: KernelCheck | undefined,
  { widthColumns, colour }: RenderOptions,
): string {
  const { allowed, wouldRefuse, from, to, protocol, port } = explanation;
  const { egress, ingress, problems, warnings } = explanation;
  const indented = (text: string): string[] =>
    wrapText(printable(text), widthColumns - INDENT.length).map((line) => INDENT + line);
  const verdict = wouldRefuse
    ? paint('yellow', 'allowed, would be refused without monitor mode', colour)
    : allowed
      ? paint('green', 'allowed', colour)
      : paint('red', 'refused', colour);
  const lines = [
    `${endText(from)} -> ${endText(to)} ${port === undefined ? protocol : `${port}/${protocol}`}: ${verdict}`,
  ];
  for (const side of [egress, ingress]) {
    const own = side.direction === 'egress' ? from : to;
    lines.push('', `${side.direction} of ${printable(own.pod ?? own.address)}: ${sideVerdict(side.verdict)}`);
    lines.push(...indented(side.words));
    const checked = kernel?.[side.direction];
    if (checked !== undefined) lines.push(...indented(checked.words));
    if (checked !== undefined && checked.chains.length > 0)
      lines.push(...indented(`Chains: ${checked.chains.join(', ')}`));
  }
  if (kernel !== undefined && kernel.others.length > 0) {
    lines.push('', 'Other rules in this kernel:');
    for (const words of kernel.others) lines.push(...indented(words));
  }
  for (const [head, parts] of [
    ['Parts of these policies that cannot be expressed and allow nothing:', problems],
    ['Parts of these policies that are read differently than they are written:', warnings],
  ] as const) {
    if (parts.length > 0) lines.push('', head);
    for (const { policy, field, message } of parts) lines.push(...indented(`${policy} ${field}: ${message}`));
  }
  return `${lines.join('\n')}\n`;
}

function sideVerdict(verdict: Explanation['ingress']['verdict']): string {
  return verdict === 'would-refuse' ? 'allowed, would be refused' : verdict;
}

function endText({ pod, address }: ExplainedEnd): string {
  return printable(pod === undefined ? address : `${pod} (${address})`);
}
